"""Meshes: coordinates, groups, torch's DeviceMesh, the drawing, and what is refused."""

import math
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from distlib import Cluster, Communicator, RankError, SimulatedWorld, World, all_reduce, torch_distributed
from distlib.training.mesh import Mesh, coordinates_of, mesh_groups, mesh_text, rank_at

CUBE = {"dp": 2, "pp": 2, "tp": 2}
MESHES = [CUBE, {"dp": 4, "tp": 2}, {"tp": 3, "pp": 1, "dp": 2}, {"tp": 5}, {"a": 2, "b": 3, "c": 1, "d": 4}]


@pytest.mark.parametrize("sizes", MESHES)
def test_coordinates_are_those_of_a_row_major_grid(sizes: dict[str, int]) -> None:
    ranks = math.prod(sizes.values())
    grid = torch.arange(ranks).reshape(*sizes.values())
    for rank in range(ranks):
        coordinates = coordinates_of(rank, sizes)
        assert list(coordinates) == list(sizes)
        assert int(grid[tuple(coordinates.values())]) == rank == rank_at(coordinates, sizes)


@pytest.mark.parametrize("sizes", MESHES)
def test_groups_are_the_lines_of_the_grid(sizes: dict[str, int]) -> None:
    ranks = math.prod(sizes.values())
    grid = torch.arange(ranks).reshape(*sizes.values())
    for dimension, (name, size) in enumerate(sizes.items()):
        lines = grid.movedim(dimension, -1).reshape(-1, size).tolist()
        assert mesh_groups(sizes, name) == sorted(lines)


def test_groups_over_several_axes() -> None:
    assert mesh_groups(CUBE, ("dp", "pp")) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert mesh_groups(CUBE, ("pp", "dp")) == [[0, 4, 2, 6], [1, 5, 3, 7]]
    assert mesh_groups(CUBE, ("dp", "pp", "tp")) == [list(range(8))]


def groups_of_a_rank(comm: Communicator, sizes: dict[str, int]) -> tuple[dict[str, int], dict[Any, list[int]]]:
    """Its coordinates, and for each group the ranks in it, in order: each writes its number to its place."""
    mesh, found = Mesh(comm, sizes), {}
    for axes in (*mesh.names, mesh.names, mesh.names[::-1]):
        ranks = torch.zeros(mesh[axes].size)
        ranks[mesh[axes].rank] = comm.rank
        all_reduce(mesh[axes], ranks)
        found[axes] = ranks.int().tolist()
    return mesh.coordinates, found


@pytest.mark.parametrize("sizes", MESHES)
def test_communicators_are_the_groups(sizes: dict[str, int]) -> None:
    for rank, (coordinates, groups) in enumerate(
        SimulatedWorld(math.prod(sizes.values())).run(groups_of_a_rank, sizes)
    ):
        assert coordinates == coordinates_of(rank, sizes)
        for axes, group in groups.items():
            assert group in mesh_groups(sizes, axes) and rank in group


def groups_of_torch(comm: Communicator, sizes: dict[str, int]) -> tuple[dict[str, int], dict[str, list[int]]]:
    with torch_distributed(comm, "gloo") as dist:
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        coordinates = {name: mesh.get_local_rank(name) for name in sizes}
        return coordinates, {name: dist.get_process_group_ranks(mesh.get_group(name)) for name in sizes}


def test_a_mesh_is_as_torchs() -> None:
    with World(6) as world:
        for sizes in ({"dp": 3, "tp": 2}, {"tp": 1, "pp": 3, "dp": 2}):
            ours, theirs = world.run(groups_of_a_rank, sizes), world.run(groups_of_torch, sizes)
            for (coordinates, groups), (wanted, named) in zip(ours, theirs, strict=True):
                assert coordinates == wanted
                assert {name: groups[name] for name in sizes} == named


def test_a_group_is_made_once() -> None:
    def same(comm: Communicator) -> bool:
        mesh = Mesh(comm, CUBE)
        return mesh["tp"] is mesh["tp"] is mesh["tp",] and mesh["dp", "tp"] is mesh["dp", "tp"]

    assert SimulatedWorld(8).run(same) == [True] * 8


# ── the drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mesh_as_text() -> None:
    assert mesh_text({"dp": 2, "pp": 2, "tp": 2}).splitlines() == [
        "dp 0",
        "      tp 0  tp 1",
        "pp 0     0     1",
        "pp 1     2     3",
        "dp 1",
        "      tp 0  tp 1",
        "pp 0     4     5",
        "pp 1     6     7",
    ]
    assert mesh_text({"pp": 1, "tp": 3}, 2).splitlines() == [
        "      tp 0  tp 1  tp 2",
        "pp 0     0     1 |   2    nodes 0, 1",
    ]


@pytest.mark.parametrize("sizes", MESHES)
def test_every_rank_stands_in_the_text_once(sizes: dict[str, int]) -> None:
    rows = [line for line in mesh_text(sizes).splitlines() if not line.endswith(f"{list(sizes)[-1]} 0")]
    numbers = [int(word) for row in rows for word in row.split("  ") if word.strip().isdigit()]
    assert numbers == list(range(math.prod(sizes.values())))


def test_a_mesh_shows_the_nodes_that_its_world_has() -> None:
    def text(comm: Communicator) -> str:
        return str(Mesh(comm, {"dp": 2, "tp": 2}))

    assert SimulatedWorld(4, Cluster(2, 2)).run(text)[0] == mesh_text({"dp": 2, "tp": 2}, 2)
    assert SimulatedWorld(4).run(text)[3] == mesh_text({"dp": 2, "tp": 2})


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"dp": 2, "pp": 2, "tp": 3}, "a mesh of 8 ranks, got dp 2 × pp 2 × tp 3 = 12: tp 2 would fit"),
        ({"dp": 4, "tp": 4}, "got dp 4 × tp 4 = 16: dp 2, or tp 2 would fit"),
        ({"dp": 3, "tp": 3}, "got dp 3 × tp 3 = 9: no single size can be changed so that it fits"),
        ({"dp": 8, "tp": 0}, "expected an integer of at least 1 as tp, got tp=0"),
        ({"dp": 2.0, "tp": 4}, "expected an integer of at least 1 as dp, got dp=2.0"),
        ({}, "expected at least one axis, got none"),
        ([2, 4], 'expected sizes by name, {"dp": 2, "tp": 4}, got a list of 2 ints'),
        ([("dp", 2), ("dp", 4)], "expected sizes by name"),  # a name twice: no mapping can hold it
    ],
)
def test_sizes_that_are_no_mesh(sizes: Any, words: str) -> None:
    with pytest.raises(RankError) as caught:
        SimulatedWorld(8).run(Mesh, sizes)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ("ep", "expected axes of the mesh, which has dp, pp, tp, got 'ep'"),
        (("dp", "dp"), "each axis once, got ('dp', 'dp')"),
        ((), "expected at least one axis"),
        (("dp", 1), "which has dp, pp, tp, got 1"),
        (0, "expected the name of an axis, or several names, got the int 0"),
    ],
)
def test_axes_that_are_not_there(axes: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        mesh_groups(CUBE, axes)
    assert words in str(caught.value)
    with pytest.raises(RankError) as on_ranks:
        SimulatedWorld(8).run(lambda comm: Mesh(comm, CUBE)[axes])
    assert words in str(on_ranks.value)


def test_ranks_and_coordinates_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match="an integer from 0 to 7 as rank, got rank=8"):
        coordinates_of(8, CUBE)
    with pytest.raises(ValueError, match="an integer from 0 to 1 as tp, got tp=2"):
        rank_at({"dp": 0, "pp": 0, "tp": 2}, CUBE)
    with pytest.raises(ValueError, match="an index for each of dp, pp, tp, got {'dp': 0}"):
        rank_at({"dp": 0}, CUBE)


def test_ranks_that_make_different_meshes() -> None:
    def other_order(comm: Communicator) -> None:
        Mesh(comm, CUBE if comm.rank < 4 else {"tp": 2, "pp": 2, "dp": 2})

    def other_group(comm: Communicator) -> None:
        Mesh(comm, CUBE)[("dp", "pp") if comm.rank else ("dp", "tp")]

    with pytest.raises(RankError, match="in another order"):
        SimulatedWorld(8).run(other_order)
    with pytest.raises(RankError, match="expected 4 ranks that make the group along dp and pp of this mesh"):
        SimulatedWorld(8).run(other_group)


def test_making_a_mesh_sends_nothing() -> None:
    world = SimulatedWorld(8)
    world.run(lambda comm: str(Mesh(comm, CUBE)))
    assert len(world.trace) == 0
