"""Whole programs of plain torch, unchanged, on the ranks of a World and in virtual time; and `%%ranks`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from distlib import Communicator, DeadlockError, RankError, SimulatedWorld, World, run_program
from distlib.torch_backend.whole_program import ProgramSyntaxError
from tests.worlds.test_notebook import Notebook

TRAINING = '''
"""A training script as people write it."""
import argparse
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    arguments = parser.parse_args()
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    init_process_group(backend, init_method="env://", timeout=timedelta(minutes=1))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert [dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])] == [rank, size, rank]
    assert "MASTER_ADDR" in os.environ and int(os.environ["MASTER_PORT"]) > 0
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
    sampler = DistributedSampler(data)
    model = DDP(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
    total = model.module.weight.detach().clone()
    dist.all_reduce(total)
    assert torch.allclose(total, size * model.module.weight)
    if rank == 0:
        print(f"{arguments.epochs} epochs on {size} ranks, {sys.argv[0]}: {model.module.weight.sum().item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
'''

BEGIN = """\
import os, sys
import torch
import torch.distributed as dist
rank = int(os.environ["RANK"])
"""
INIT = BEGIN + 'dist.init_process_group("gloo")\n'  # line 5


@pytest.fixture(params=["World", "SimulatedWorld"])
def world(request: pytest.FixtureRequest, worlds: Any) -> World | SimulatedWorld:
    return worlds(2) if request.param == "World" else SimulatedWorld(2, contexts="threads")


def told(world: World | SimulatedWorld, program: str, argv: list[str] | None = None) -> str:
    with pytest.raises(RankError) as caught:
        run_program(world, program, argv or [], timeout=100)
    return str(caught.value)


# ── programs that are right ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_training_script(world, capsys) -> None:
    run_program(world, TRAINING, ["--epochs", "2"], timeout=100)
    printed = capsys.readouterr().out
    assert "2 epochs on 2 ranks, program.py" in printed
    run_program(world, TRAINING, timeout=100)
    assert "1 epochs on 2 ranks" in capsys.readouterr().out


def test_it_trains_as_under_gloo(worlds, capsys) -> None:
    """Of two ranks there is one order to sum up in."""

    def on_gloo(comm: Communicator, source: str) -> None:
        sys.argv[:] = ["program.py"]
        import torch.distributed as dist

        from distlib import torch_distributed

        with torch_distributed(comm, "gloo"):
            os.environ |= {"RANK": str(comm.rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(comm.rank)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
            usual, kept = dist.init_process_group, dist.destroy_process_group
            dist.init_process_group, dist.destroy_process_group = lambda *_, **__: None, lambda: None
            try:
                exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
            finally:
                dist.init_process_group, dist.destroy_process_group = usual, kept
                for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
                    del os.environ[name]

    run_program(worlds(2), TRAINING, timeout=100)
    ours = capsys.readouterr().out
    worlds(2).run(on_gloo, TRAINING, timeout=100)
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert "".join(line for line in lines if "[Gloo]" not in line) == ours  # torch 2.8's says that it is connected


@pytest.mark.parametrize(
    "call",
    [
        "dist.init_process_group()",
        'dist.init_process_group("nccl")',
        'dist.init_process_group(backend="cpu:gloo,cuda:nccl")',
        'dist.init_process_group("gloo", rank=rank, world_size=2)',
        'dist.init_process_group("gloo", "tcp://10.1.1.20:23456", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))',
        'dist.init_process_group("gloo", init_method=f"file:///nowhere?rank={rank}&world_size=2")',
        'dist.init_process_group("gloo", store=dist.HashStore(), rank=rank, world_size=2)',
        'os.environ["MASTER_PORT"] = "29500"; dist.init_process_group("gloo")',
        'dist.device_mesh.init_device_mesh("cpu", (2,))',
        "dist.init_process_group(); dist.destroy_process_group(); dist.init_process_group()",
        'dist.init_process_group("gloo"); dist.new_group([0, 1], backend="gloo")',
        'dist.init_process_group("gloo"); dist.monitored_barrier()',
    ],
)
def test_ways_to_begin(world, call: str, capsys) -> None:
    end = "\ndist.all_reduce(tensor := torch.ones(1))\nprint(tensor.item(), dist.get_backend())\n"
    run_program(world, BEGIN + call + end, timeout=100)
    assert capsys.readouterr().out.count("2.0 distlib\n") == 2


def test_a_program_that_starts_its_processes_itself(world, capsys) -> None:
    program = """
import os
import torch.distributed as dist
import torch.multiprocessing as mp

def setup(rank, size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=size)

def demo(rank, size):
    setup(rank, size)
    dist.barrier()
    print("rank", rank, "of", dist.get_world_size())

if __name__ == "__main__":
    mp.spawn(demo, args=({size},), nprocs={size}, join=True)
"""
    run_program(world, program.replace("{size}", "2"), timeout=100)
    printed = capsys.readouterr().out
    assert "rank 0 of 2" in printed and "rank 1 of 2" in printed
    assert "asked for 3 processes, and the program runs on 2 ranks" in told(world, program.replace("{size}", "3"))


def test_its_classes_are_those_of_main(world, capsys) -> None:
    program = INIT + (
        "from dataclasses import dataclass\n\n@dataclass\nclass Point:\n    x: int\n\n"
        "everybody = [None, None]\ndist.all_gather_object(everybody, Point(rank))\n"
        "import __main__\nprint(everybody, __main__.Point is Point)\n"
    )
    run_program(world, program, timeout=100)
    assert capsys.readouterr().out.count("[Point(x=0), Point(x=1)] True\n") == 2


@pytest.mark.parametrize("end", ["sys.exit()", "sys.exit(0)", "exit()", "raise SystemExit"])
def test_an_end_that_is_no_failure(world, end: str) -> None:
    run_program(world, INIT + f"dist.barrier()\n{end}\n", timeout=100)


def test_a_file_with_modules_next_to_it(world, tmp_path: Path, capsys) -> None:
    helper, program = tmp_path / "own_helper.py", tmp_path / "train.py"
    program.write_text(INIT + "from own_helper import word\nprint(word, __file__ == sys.argv[0], sys.argv[1:])\n")
    for word in ("first", "second"):  # the helper is edited between the runs
        helper.write_text(f"word = {word!r}\n")
        os.utime(helper, (2e9, 2e9 + len(word)))
        run_program(world, program, ["--x"], timeout=100)
        assert capsys.readouterr().out.count(f"{word} True ['--x']\n") == 2
    helper.write_text("import torch\nword = torch.ones(2) + torch.ones(3)\n")
    os.utime(helper, (2e9, 2e9 + 10))
    with pytest.raises(RankError, match=r"^own_helper\.py, line 2: ranks 0 and 1 raised RuntimeError"):
        run_program(world, program, timeout=100)


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (BEGIN + "dist.all_reduce(torch.ones(1))", "line 5: ranks 0 and 1 raised ValueError: Default process group"),
        (BEGIN + "dist.all_reduce(torch.ones(1))", "please make sure to call init_process_group."),
        (INIT + "dist.init_process_group('gloo')", "line 6: ranks 0 and 1 raised ValueError: trying to initialize"),
        (BEGIN + "dist.init_process_group('glooo')", "line 5: ranks 0 and 1 raised ValueError: init_process_group"),
        (BEGIN + "dist.init_process_group('gloo', ranks=3)", "line 5: ranks 0 and 1 raised TypeError"),
        (BEGIN + "dist.init_process_group(rank=0)", "line 5: rank 1 raised ValueError: init_process_group got rank=0"),
        (BEGIN + "dist.init_process_group(world_size=3)", "got world_size=3, and there are 2 ranks."),
        (BEGIN + "dist.init_process_group(None, 'tcp://a:1?rank=0')", "line 5: rank 1 raised ValueError"),
        (BEGIN + "os.environ['RANK'] = '1'\ndist.init_process_group()", "line 6: rank 0 raised ValueError"),
        (BEGIN + "sys.exit(3)", "line 5: ranks 0 and 1 raised ProgramEnded: the program has ended itself, with status"),
        (BEGIN + "if rank: sys.exit('no data')", "line 5: rank 1 raised ProgramEnded"),
        (BEGIN + "if rank: sys.exit('no data')", "status 1 and the words: no data"),
        (INIT + "dist.all_reduce(torch.ones(3 + rank))", "line 6: rank"),
        (INIT + "rank.x", "line 6: ranks 0 and 1 raised AttributeError"),
        ("def f():\n    return 1 / 0\nf()", "line 2: ranks 0 and 1 raised ZeroDivisionError"),
    ],
)
def test_the_line_of_a_mistake(world, program: str, words: str) -> None:
    message = told(world, program)
    assert message.startswith("program.py, line ") and words in message


def test_options_that_the_program_does_not_know(world) -> None:
    line = 1 + TRAINING.splitlines().index("    arguments = parser.parse_args()")
    message = told(world, TRAINING, ["--epoches", "2"])
    assert message.startswith(f"program.py, line {line}: ranks 0 and 1 raised ProgramEnded") and "status 2" in message


def test_a_rank_that_does_not_join(world) -> None:
    with pytest.raises(DeadlockError, match=r"^program\.py, line 5: deadlock\. rank 0 waits in init_process_group"):
        run_program(world, BEGIN + "rank == 0 and dist.init_process_group()", timeout=100)


def test_a_deadlock_shows_the_lines_of_the_program(world) -> None:
    with pytest.raises(DeadlockError) as caught:
        run_program(world, INIT + "if rank == 0:\n    dist.barrier()\n", timeout=100, file="mine.py")
    assert str(caught.value).startswith("mine.py, line 7: deadlock. rank 0 waits in barrier for rank 1")
    assert any(line.startswith("---->   7     dist.barrier()") for line in caught.value._render_traceback_())


def test_what_is_no_program(worlds, world) -> None:
    with pytest.raises(ProgramSyntaxError, match=r"^program\.py, line 2: SyntaxError: "):
        run_program(world, "import os\nx = = 3\n")
    with pytest.raises(FileNotFoundError):
        run_program(world, Path("nowhere.py"))
    with pytest.raises(ValueError, match=r"try Path\('train\.py'\)"):
        run_program(world, "train.py")
    with pytest.raises(TypeError, match="text of a program"):
        run_program(world, lambda comm: None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"try \['--epochs', '2'\]"):
        run_program(world, TRAINING, "--epochs 2")
    with pytest.raises(TypeError, match="expected a World first"):
        run_program(2, TRAINING)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='contexts="threads"'):
        run_program(SimulatedWorld(2), TRAINING)


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────────


def state(comm: Communicator) -> list[Any]:
    """What a program may have changed in this process."""
    import torch.distributed as dist
    import torch.multiprocessing

    functions = [dist.init_process_group, dist.new_group, torch.multiprocessing.spawn]
    return [
        dict(os.environ), type(os.environ).__name__, list(sys.argv), os.getcwd(), list(sys.path), repr(sys.excepthook),
        hasattr(sys.modules["__main__"], "rank"), dist.is_initialized(),
        [each.__code__.co_filename for each in functions], "own_helper" in sys.modules,
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["", "sys.exit(2)", "raise KeyError('x')", "dist.recv(torch.ones(1), 1 - rank)"])
def test_afterwards_all_is_as_before(world, end: str, tmp_path: Path) -> None:
    (tmp_path / "own_helper.py").write_text("")
    program = INIT + (
        "os.environ['NEW'] = 'new'\nos.environ.pop('HOME', None)\nsys.argv.append('b')\nsys.path.append('/x')\n"
        "import own_helper\nos.chdir('/')\nsys.excepthook = print\ntorch.nn.parallel.DistributedDataParallel("
        f"torch.nn.Linear(1, 1))(torch.ones(1, 1)).sum().backward()\n{end}\n"
    )
    path = tmp_path / "train.py"
    path.write_text(program)
    before = world.run(state)
    if end:
        with pytest.raises(RankError):
            run_program(world, path, timeout=100)
    else:
        run_program(world, path, timeout=100)
    assert world.run(state) == before


def leave_a_group(comm: Communicator) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def test_a_group_that_an_earlier_function_has_left_is_gone(worlds: Any) -> None:
    worlds(2).run(leave_a_group)
    run_program(worlds(2), INIT + "dist.barrier()", timeout=100)


def test_simulated_ranks_have_not_the_group_of_this_process() -> None:
    import torch.distributed as dist

    had_one = dist.is_initialized()
    if not had_one:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    group = dist.group.WORLD
    run_program(SimulatedWorld(2, contexts="threads"), BEGIN + "assert not dist.is_initialized()")
    run_program(SimulatedWorld(2, contexts="threads"), INIT + "dist.barrier()")
    assert dist.group.WORLD is group
    if not had_one:
        dist.destroy_process_group()


# ── in a notebook ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    notebook.value("import distlib")
    yield notebook
    notebook.close()


def test_a_cell_as_a_program(notebook: Notebook) -> None:
    cell = "%%ranks 2 --epochs 3\n" + INIT + "print(__name__, sys.argv[1:], os.getpid())"
    first, second = notebook.value(cell), notebook.value(cell)
    assert "[rank 0] __main__ ['--epochs', '3']" in first and sorted(first.split()) == sorted(second.split())
    assert "[rank 2] 2" in notebook.value("%%ranks 3\n" + INIT + "print(dist.get_rank())")


def test_the_lines_of_errors_are_those_of_the_cell(notebook: Notebook) -> None:
    _, error = notebook.cell("%%ranks 2\n" + INIT + "if rank == 1:\n    raise ValueError('bad')")
    assert error is not None and error["ename"] == "RankError"
    assert error["evalue"] == f"cell {notebook.number}, line 8: rank 1 raised ValueError: bad"
    shown = "\n".join(error["traceback"])
    assert "---->   8     raise ValueError('bad')" in shown and "whole_program.py" not in shown
    _, error = notebook.cell("%%ranks 2\nimport os\nx = = 3")
    assert error is not None and error["evalue"].startswith(f"cell {notebook.number}, line 3: SyntaxError: ")
    assert "whole_program.py" not in "\n".join(error["traceback"])


@pytest.mark.parametrize("line", ["%%ranks", "%%ranks four", "%%ranks 0"])
def test_a_number_of_ranks_is_needed(notebook: Notebook, line: str) -> None:
    printed, error = notebook.cell(f"{line}\nprint(1)")
    assert "try %%ranks 4" in (printed if error is None else error["evalue"])
