import pytest

from distlib.frameworks.even_shares import Axis, replica_batch, shard_shape

MESH = {"data": 2, "model": 4}


def test_each_replica_gets_its_share() -> None:
    assert replica_batch(64, 4) == 16


@pytest.mark.parametrize(
    "batch, replicas, message", [(10, 4, "Use 8 or 12"), (3, 4, "Use 4"), (0, 4, "at least 1"), (4, 0, "at least 1")]
)
def test_a_batch_that_does_not_divide_is_an_error(batch: int, replicas: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replica_batch(batch, replicas)


@pytest.mark.parametrize(
    "shape, axes, expected",
    [
        ((8, 12), ("data", "model"), (4, 3)),
        ((8, 12), (None, "model"), (8, 3)),
        ((8, 12), (("data", "model"),), (1, 12)),
        ((8,), (), (8,)),
        ((), (), ()),
    ],
)
def test_each_device_holds_a_shard(shape: tuple[int, ...], axes: tuple[Axis, ...], expected: tuple[int, ...]) -> None:
    assert shard_shape(shape, MESH, axes) == expected


@pytest.mark.parametrize(
    "shape, axes, message",
    [
        ((8, 6), ("data", "model"), "dimension 1 has 6 elements, which do not divide by the 4 devices .* axis model"),
        ((12,), (("data", "model"),), "8 devices of the mesh axis data × model"),
        ((8,), ("pipeline",), "the axes data, model, and none called 'pipeline'"),
        ((8, 8), ("data", "data"), "'data' splits two dimensions"),
        ((8,), ("data", None), "at most 1 axes"),
    ],
)
def test_what_cannot_be_split_is_an_error(shape: tuple[int, ...], axes: tuple[Axis, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shard_shape(shape, MESH, axes)


def test_jax_agrees() -> None:
    sharding = pytest.importorskip("jax.sharding")
    mesh = sharding.AbstractMesh((2, 4), ("data", "model"))
    for axes in (("data", "model"), (None, "model"), (("data", "model"),)):
        theirs = sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes)).shard_shape((8, 12))
        assert shard_shape((8, 12), MESH, axes) == theirs
