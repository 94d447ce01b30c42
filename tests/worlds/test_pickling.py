"""What travels between the notebook and its ranks: tensors that share memory, gradients, and nothing more."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType

import cloudpickle
import pytest
import torch

from distlib import Communicator, SimulatedWorld, World
from distlib.worlds.pickling import dumps, loads

MakeWorld = Callable[[int], World | SimulatedWorld]


@pytest.fixture(params=["real", "simulated"])
def make_world(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> MakeWorld:
    return worlds if request.param == "real" else SimulatedWorld


class Bucket:
    """A buffer, and a view of it."""

    def __init__(self) -> None:
        self.all = torch.zeros(4)
        self.part = self.all[1:3]


def test_views_on_a_rank_are_views(make_world: MakeWorld) -> None:
    """Of closures, of an argument, of an object, between Parameters, and on the way back."""
    flat = torch.zeros(4)
    head, tail = torch.nn.Parameter(flat[:2]), torch.nn.Parameter(flat[2:])

    def step(comm: Communicator, bucket: Bucket, last: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Bucket]:
        with torch.no_grad():
            head.add_(1)
            tail.add_(comm.rank)
        bucket.part += 1
        last.zero_()
        return flat, flat[1:2], bucket

    bucket = Bucket()
    results = make_world(2).run(step, bucket, flat[3:])
    for rank, (whole, part, filled) in enumerate(results):
        assert whole.tolist() == [1, 1, rank, 0] and filled.all.tolist() == [0, 1, 1, 0]
        part += 5
        filled.part += 1
        assert whole.tolist() == [1, 6, rank, 0] and filled.all.tolist() == [0, 2, 2, 0]
    assert flat.tolist() == bucket.all.tolist() == [0] * 4


def test_gradients_arrive(make_world: MakeWorld) -> None:
    """With the model that has them; views of one buffer, as in DDP, still are."""
    model, gradients = torch.nn.Linear(2, 1, bias=False), torch.zeros(2)
    model.weight.grad = gradients.view(1, 2)
    leaf = torch.ones(2, requires_grad=True)
    leaf.grad = torch.full((2,), 3.0)

    def see(comm: Communicator) -> tuple[list[float], torch.Tensor]:
        gradients.add_(2)
        assert model.weight.grad is not None
        return model.weight.grad.flatten().tolist(), leaf

    for seen, back in make_world(2).run(see):
        assert seen == [2, 2] and back.grad.tolist() == [3, 3]
    assert (leaf * 1).grad_fn is not None and loads(dumps(leaf * 1)).grad is None


@pytest.mark.parametrize(
    "tensor",
    [
        torch.empty(0),
        torch.ones(2, 0, 3),
        torch.tensor(3),
        torch.tensor([1 + 2j, 3]).conj(),
        torch.tensor([1 + 2j, 3]).conj().imag,
        torch.ones(3).expand(4, 3),
        torch.arange(6.0).view(2, 3).t(),
        torch.tensor([True, False]),
        torch.tensor([1, 2**15], dtype=torch.uint16),
        torch.ones(2, dtype=torch.float8_e4m3fn),
        torch.arange(9, dtype=torch.bfloat16)[3::2],
        torch.arange(70_000.0)[1:],
        torch.ones(2, requires_grad=True),
    ],
)
def test_a_tensor_arrives_as_it_looks(tensor: torch.Tensor) -> None:
    alone, pair = loads(dumps(tensor)), loads(dumps([tensor, tensor.detach()]))
    for arrived in (alone, pair[0]):
        assert (arrived.dtype, arrived.shape, arrived.requires_grad) == (
            tensor.dtype,
            tensor.shape,
            tensor.requires_grad,
        )
        assert arrived.double().equal(tensor.double()) if not tensor.is_complex() else arrived.equal(tensor)


def test_views_of_several_dtypes_share_their_bytes() -> None:
    numbers = torch.zeros(3, dtype=torch.complex128)[1:]
    all_bytes = numbers.view(torch.uint8)[8:]
    first, imaginary, rest = loads(dumps((numbers, numbers.imag, all_bytes)))
    imaginary.fill_(1)
    assert first.tolist() == [1j, 1j] and rest.view(-1).count_nonzero() > 0


def test_no_more_memory_travels_than_is_looked_at() -> None:
    """Not what lies between two views, nor the columns between two columns; and what many share travels once."""
    matrix = torch.zeros(1000, 1000)
    assert len(dumps((matrix[:1], matrix[-1:]))) < 10_000
    assert len(dumps((matrix[:, 0], matrix[:, 1]))) < 10_000
    assert len(dumps([matrix, *matrix])) < matrix.nbytes + 200_000
    first, again, row = loads(dumps((matrix[:, 0], matrix[::500, 0], matrix[0])))
    again[0] = 1
    assert first[0] == row[0] == 1


def test_a_rank_may_unpickle_while_it_unpickles() -> None:
    inner = dumps(torch.ones(2))
    assert [t.tolist() for t in loads(dumps([torch.zeros(1), Nested(inner), torch.zeros(3)]))] == [[0], [1, 1], [0] * 3]


class Nested:
    """Something whose unpickling calls `loads`."""

    def __init__(self, inner: bytes) -> None:
        self.inner = inner

    def __reduce__(self) -> tuple[Callable[[bytes], object], tuple[bytes]]:
        return loads, (self.inner,)


def test_a_function_keeps_its_file_also_where_cloudpickle_drops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def outer() -> Callable[[], None]:
        def inner() -> None: ...

        return inner

    def reduce_without(code: CodeType) -> tuple[object, ...]:
        make, parts = reduce_code(code)
        return make, tuple("<dynamic-code>" if part == code.co_filename else part for part in parts)

    reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]
    monkeypatch.setitem(cloudpickle.Pickler.dispatch_table.maps[0], CodeType, reduce_without)
    assert cloudpickle.loads(cloudpickle.dumps(outer)).__code__.co_filename == "<dynamic-code>"
    arrived = loads(dumps(outer))
    assert [each.__code__.co_filename for each in (arrived, arrived())] == [__file__] * 2
