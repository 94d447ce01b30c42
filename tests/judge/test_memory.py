"""Memory has an end: in the ranks of a submission together, and in the judge for what they send."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from distlib.classroom.grader import examine as examining
from distlib.classroom.grader.examine import MEMORY, Examinee, examine, examine_all
from distlib.classroom.grader.source import Source
from distlib.judge.remote import proxy
from distlib.judge.remote.judge import Judged
from distlib.judge.remote.memory_watch import MemoryWatch, memory_of, to_end
from distlib.judge.remote.proxy import _landing
from distlib.judge.remote.wire import MOST_PAYLOAD
from distlib.judge.sandbox import Limits
from distlib.judge.sandbox.limits import MEBIBYTE
from tests.judge.test_remote_judge import RIGHT, TEST, run, told

LITTLE = Limits(check_seconds=5, submission_seconds=60, together_bytes=256 * MEBIBYTE)
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_the_process_that_has_grown_must_go() -> None:
    assert to_end({1: 50, 2: 40}, {}, 90) is None
    assert to_end({1: 50, 2: 45}, {1: 50, 2: 5}, 90) == 2
    assert to_end({1: 95, 2: -10}, {}, 90) == 1


@needs_linux
def test_what_a_process_takes_is_seen_and_it_is_ended() -> None:
    eats = "import sys; kept = bytearray(b'x') * (100 << 20); print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", eats], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        assert 100 << 20 <= memory_of(process.pid) < 200 << 20
        watch = MemoryWatch(10)
        watch._shared = 0
        watch.look([process.pid])
        assert (process.wait(), watch.ended) == (-9, {process.pid})
    assert memory_of(process.pid) == 0 < memory_of(os.getpid())


@needs_linux
@pytest.mark.parametrize(
    ("answer", "own", "problem"),
    [
        (RIGHT, ["import torch", "table = torch.ones(40 << 18)"], ""),
        (RIGHT, ["table = torch.ones(400 << 18)"], ""),
        (
            RIGHT.replace("    incoming", "    kept = torch.ones(400 << 18)\n    comm.barrier()\n    incoming", 1),
            [],
            "0.25 GiB",
        ),
    ],
    ids=["little", "a cell", "an answer"],
)
def test_ranks_have_a_limit_together(answer: str, own: list[str], problem: str) -> None:
    judged = run(answer, own=own, limits=LITTLE)
    assert problem in told(judged) and bool(problem) == bool(told(judged))
    if own == ["table = torch.ones(400 << 18)"]:
        (remark,) = judged.remarks
        assert "took too much memory (it was ended, since all ranks together took more than 0.25 GiB" in remark


@pytest.mark.parametrize("shape", [[MOST_PAYLOAD + 1], [1 << 20, 1 << 20], [-1], [True], [2.0], "ab"], ids=repr)
def test_nobody_receives_more_than_can_be_sent(shape: object) -> None:
    assert _landing(([MOST_PAYLOAD // 4, 2], "float16")).nbytes == MOST_PAYLOAD
    with pytest.raises(ValueError, match="expected"):
        _landing((shape, "uint8"))


@pytest.mark.parametrize("call", ["comm.isend(tensor, other)", "comm.irecv(tensor, other)"])
def test_messages_that_are_started_and_not_waited_for_have_an_end(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(proxy, "_MOST_STARTED", 10)
    answer = f"def shift(comm, tensor):\n    other = (comm.rank + 1) % comm.world_size\n    while True: {call}"
    assert "expected at most 10 messages and 256 MiB that were started and not waited for, got more" in told(
        run(answer)
    )


def test_what_has_been_waited_for_counts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_MOST_STARTED", 10)
    one = "        (comm.irecv(tensor, 0) if comm.rank else comm.isend(tensor, 1)).wait()\n"
    answer = f"def shift(comm, tensor):\n    for _ in range(12):\n{one}    raise ValueError('all are waited for')"
    assert "all are waited for" in told(run(answer, test=TEST.replace("(2, 3)", "(2,)")))


def test_a_submission_that_takes_too_much_memory_is_refused_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_room(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(examining, "find_notebook", without_room)
    examined = examine(
        Examinee(Path("nowhere"), "02", Source(new_notebook(), []), seed=""),
        lambda notebook, *_: Judged(notebook, [], 0),
    )
    assert examined.problem == f"it would take more than {MEMORY >> 30} GiB of memory to read and grade it"


def greedy(notebook: NotebookNode, seed: str, times: float) -> Judged:
    """A judge that takes more than the grader's process may have."""
    bytearray(MEMORY + MEBIBYTE)
    return Judged(notebook, [], 0)


@needs_linux
def test_the_graders_process_has_a_limit(tmp_path: Path) -> None:
    nbformat.write(new_notebook(cells=[new_code_cell()]), tmp_path / "02.ipynb")
    task = Examinee(tmp_path, "02", Source(new_notebook(), []), seed="")
    [(_, examined)] = examine_all({"ada": task}, lambda notebook: nullcontext(greedy), jobs=1)
    assert examined.problem == f"it would take more than {MEMORY >> 30} GiB of memory to read and grade it"
