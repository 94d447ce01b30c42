"""Functions of a rank that are unusual: with a cache, async, with exit(), with names that a communicator has not."""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from distlib import Communicator, RankError, SimulatedWorld, World, collectives
from distlib.collectives.group import RankGroup

AnyWorld = World | SimulatedWorld
HERE = r"test_what_functions_are.py, line \d+: ranks 0 and 1 raised "


@pytest.fixture(params=["real", "simulated"])
def world(request: pytest.FixtureRequest, worlds: Callable[[int], World]) -> AnyWorld:
    return worlds(2) if request.param == "real" else SimulatedWorld(2)


def told(world: AnyWorld, function: Callable[[Communicator], object]) -> str:
    with pytest.raises(RankError) as caught:
        world.run(function, timeout=100)
    return str(caught.value)


# With a cache. They are made here, as in a cell: no module has them.


def test_functions_with_a_cache_travel(world: AnyWorld) -> None:
    @functools.lru_cache(maxsize=7, typed=True)
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    @functools.singledispatch
    def count(value: object) -> int:
        return 0

    @count.register
    def _(value: list) -> int:  # type: ignore[type-arg]
        return sum(count(each) for each in value)

    count.register(int, lambda value: 1)

    class Layer:
        def __init__(self) -> None:
            self.width = 3

        @functools.cached_property
        def doubled(self) -> int:
            return 2 * self.width

        @functools.cache  # noqa: B019
        def times(self, factor: int) -> int:
            return factor * self.width

        @functools.singledispatchmethod
        def name(self, value: object) -> str:
            return "anything"

        @name.register
        def _(self, value: int) -> str:
            return "a number"

    layer = Layer()
    assert fibonacci(9) == 34, "the notebook's own cache is not empty"

    def use(comm: Communicator) -> list[Any]:
        before = fibonacci.cache_info().currsize
        named = [layer.name(1), layer.name("1")]
        return [before, fibonacci(30), fibonacci.cache_parameters(), count([1, [2, 3], "4"]), layer.times(5), *named]

    parameters = {"maxsize": 7, "typed": True}
    assert world.run(use) == [[0, 832040, parameters, 3, 15, "a number", "anything"]] * 2
    assert world.run(lambda comm: (layer.doubled, Layer().doubled)) == [(6, 6)] * 2
    assert layer.doubled == 6
    assert fibonacci.cache_info().currsize == 7


# async def


async def wait(comm: Communicator) -> int:
    await asyncio.sleep(0)
    return comm.rank


async def count_up(comm: Communicator) -> Any:
    yield comm.rank


def test_async_def_is_refused_with_what_to_write(world: AnyWorld, capfd: pytest.CaptureFixture[str]) -> None:
    for function, name in ((wait, "wait"), (functools.partial(wait), "functools.partial"), (count_up, "count_up")):
        with pytest.raises(TypeError, match=f"got {name}.*, which is async def: write a plain function.*asyncio.run"):
            world.run(function)
    assert "returned a coroutine, which nobody awaits: write" in told(world, lambda comm: wait(comm))
    assert re.match(f"{HERE}TypeError: the function", told(world, lambda comm: count_up(comm)))
    assert world.run(lambda comm: asyncio.run(wait(comm))) == [0, 1]
    assert capfd.readouterr().err == "", "Python warns of coroutines that nobody has awaited"


# exit()


def leave(comm: Communicator) -> None:
    raise SystemExit


def test_exit_is_explained(world: AnyWorld) -> None:
    assert re.match(
        rf"{HERE}SystemExit: \(exit\(\) and sys.exit\(\) end a program; .* write return\)$", told(world, leave)
    )


# Names that a communicator has not


TORCHS = ("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")
TORCHS += ("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "all_reduce_coalesced")
MPIS = ("Allreduce", "allreduce", "Bcast", "bcast", "Allgather", "Alltoall", "Reduce", "Gather", "Scatter")


def say_of_each(comm: Communicator, names: list[str]) -> list[str]:
    kinds = [comm, RankGroup(comm, range(comm.world_size)), comm.split(0), comm.within("all_reduce()")]
    said = []
    for kind in kinds:
        for name in names:
            assert not hasattr(kind, name)
            try:
                getattr(kind, name)
            except AttributeError as error:
                said.append(f"{name}: {error}")
    return said


def test_a_collective_is_a_function(world: AnyWorld) -> None:
    ours = [name for name in collectives.__all__ if name != "barrier"]
    names = [*dict.fromkeys([*ours, *TORCHS, *MPIS])]
    for said in world.run(say_of_each, names)[0]:
        name = said.partition(":")[0]
        function = re.search(
            r"(\w+) is a function. Write \1\(comm, (tensor|outputs).*with: from ([\w.]+) import \1$", said
        )
        assert function, said
        module = __import__(function[3], fromlist=["x"])
        assert callable(getattr(module, function[1]))
        assert name not in ours or name == function[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("get_rank", "write comm.rank"),
        ("Get_size", "write comm.world_size"),
        ("new_group", "write comm.split(color)"),
        ("Sendrecv", "write comm.exchange(outgoing, dst, incoming, src)"),
        ("Barrier", "write comm.barrier()"),
        ("all_gather_object", "messages are tensors here"),
        ("broadcast_object_list", "messages are tensors here"),
        ("color", "it has rank, world_size, device, send, recv,"),
        ("sned", "Did you mean: 'send'?"),
    ],
)
def test_other_words(world: AnyWorld, name: str, says: str) -> None:
    text = told(world, lambda comm: getattr(comm, name))
    assert says in text
    assert "Did you mean: '_" not in text


def test_a_world_is_no_communicator(world: AnyWorld) -> None:
    for name in ("rank", "send", "barrier", "all_reduce"):
        with pytest.raises(AttributeError, match=rf"World has no '{name}': .* Write world.run\(function\), and not"):
            getattr(world, name)
    with pytest.raises(AttributeError, match="^'(Simulated)?World' object has no attribute 'traces'"):
        _ = world.traces  # type: ignore[union-attr]


def test_torch_distributed_without_a_group_names_what_a_rank_has(world: AnyWorld) -> None:
    text = told(world, lambda comm: torch.distributed.all_reduce(torch.ones(1)))
    assert re.match(f"{HERE}ValueError: Default process group has not been initialized, as a rank has none", text)
    assert "all_reduce(comm, tensor)" in text
    assert "with torch_distributed(comm) as dist:" in text
    assert "init_process_group" not in text


# Figures


def test_a_rank_has_no_screen_and_returns_its_figure(worlds: Callable[[int], World]) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")

    def show(comm: Communicator) -> Any:
        pyplot.plot([comm.rank, 2])
        pyplot.show()
        return pyplot.gcf()

    printed: list[str] = []
    world = World(2, on_output=lambda rank, stream, text: printed.append(text))
    with world:
        figures = world.run(show, timeout=100)
    try:
        assert [list(figure.axes[0].lines[0].get_ydata()) for figure in figures] == [[0, 2], [1, 2]]
        for text in printed:
            assert re.match(r"test_what_functions_are.py, line \d+: a rank has no screen, .*return plt.gcf\(\)", text)
        assert len(printed) == 2
    finally:
        pyplot.close("all")
