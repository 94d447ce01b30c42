"""What a rank has in the place of a keyboard, a debugger, IPython and widgets."""

from __future__ import annotations

import io
import multiprocessing
import pdb
import sys
from collections.abc import Callable

import pytest
import torch

from distlib import Communicator, RankError, SimulatedWorld


def stop(comm: Communicator) -> None:
    breakpoint()


def trace(comm: Communicator) -> None:
    pdb.set_trace()


def post_mortem(comm: Communicator) -> None:
    try:
        raise KeyError
    except KeyError as error:
        pdb.post_mortem(error.__traceback__)


def ask(comm: Communicator) -> str:
    return input("how many? ")


def read(comm: Communicator) -> str:
    return sys.stdin.readline()


KEYBOARD = r"a rank has no keyboard.*SimulatedWorld\(2\), where"
IPYTHON = r"NameError: get_ipython\(\), %magics and !commands work in the notebook's own process"


@pytest.mark.parametrize(
    "function, says",
    [
        (stop, KEYBOARD),
        (trace, KEYBOARD),
        (post_mortem, KEYBOARD),
        (ask, KEYBOARD),
        (read, KEYBOARD),
        (lambda comm: get_ipython().run_line_magic("time", "1"), IPYTHON),  # noqa: F821
    ],
    ids=["breakpoint", "set_trace", "post_mortem", "input", "stdin", "get_ipython"],
)
def test_what_a_rank_has_not_is_said_at_the_line(worlds, function: Callable[[Communicator], object], says: str) -> None:
    world = worlds(2)
    world.on_output = lambda *_: None  # a debugger prints where it is
    try:
        with pytest.raises(RankError, match=rf"(?s)^test_notebook_only.py, line \d+: ranks 0 and 1 raised .*{says}"):
            world.run(function, timeout=100)
    finally:
        world.on_output = None
    assert world.run(lambda comm: comm.rank) == [0, 1]


@pytest.mark.parametrize("contexts", ["greenlets", "threads"])
def test_simulated_ranks_have_the_notebooks_keyboard(monkeypatch, capsys, contexts: str) -> None:
    """As the error of a real rank promises."""
    world = SimulatedWorld(2, contexts=contexts)
    monkeypatch.setattr("sys.stdin", io.StringIO("3\n4\n"))
    assert world.run(ask) == ["3", "4"]

    def look(comm: Communicator) -> int:
        rank = comm.rank + 40
        pdb.Pdb(nosigint=True).set_trace()
        comm.barrier()
        return rank

    monkeypatch.setattr("sys.stdin", io.StringIO("p rank\nc\np rank\nc\n"))
    tracing = sys.gettrace()
    assert world.run(look) == [40, 41]
    assert sys.gettrace() is tracing
    assert "(Pdb) 40\n" in capsys.readouterr().out


def test_what_is_displayed_is_printed_and_bars_are_of_text(worlds, capsys) -> None:
    def show(comm: Communicator) -> None:
        from tqdm.notebook import tqdm, trange

        display({"rank": comm.rank}, clear=False)  # noqa: F821
        for _ in tqdm(trange(2, file=sys.stdout), file=sys.stdout):
            pass

    worlds(1).run(show)
    printed = capsys.readouterr().out
    assert "[rank 0] {'rank': 0}\n" in printed and "100%" in printed


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(float(index))


def test_a_loader_with_workers(worlds) -> None:
    def total(comm: Communicator) -> float:
        loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1)
        return sum(float(batch.sum()) for batch in loader)

    assert worlds(2).run(total, timeout=200) == [28, 28]


def test_a_fresh_process_of_a_rank_gets_functions_and_classes_of_the_notebook(worlds) -> None:
    class Adder:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def __call__(self, number: int) -> int:
            return number + self.amount

    def spawn(comm: Communicator) -> list[int]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return [*pool.map(Adder(comm.rank), [1, 2]), *pool.map(lambda number: 2 * number, [3])]

    assert worlds(2).run(spawn, timeout=200) == [[1, 2, 6], [2, 3, 6]]
