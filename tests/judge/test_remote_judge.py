"""The judge: test cells run here, the student's cells on ranks in other processes, with nothing but their wires.

The notebooks are small ones made here, with a test cell that checks a shift: rank r ends with the values of rank r − 1.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from distlib.checks.training_scores import KEY, TrainingScore
from distlib.judge.remote import forkserver as judges_forkserver, frameworks, ranks, wire
from distlib.judge.remote.forkserver import CanNotGrade
from distlib.judge.remote.judge import Judged, Judges, judge, judge_in
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.student_cells import RankCell
from distlib.judge.remote.wire import encode
from distlib.judge.sandbox import KINDS, Limits, choose_sandbox
from distlib.judge.sandbox.isolation import USERS_PER_SANDBOX
from distlib.worlds.real import forkserver
from tests.remote_functions import shared_fork_server
from tests.tools.midst import until_gone, wait_until

RIGHT = """
def shift(comm, tensor):
    incoming = torch.empty_like(tensor)
    comm.exchange(tensor, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
    tensor.copy_(incoming)
"""
TEST = """
import torch

from distlib.exercises.messages.checks import check_shift

report = check_shift(shift, world_sizes=(2, 3), lengths=(4, 5), messages=lambda n: [1] * n, rounds=lambda n: 1, seed=7)
print(report.summary())
"""
SET_UP = "import torch\n\nfrom distlib import Communicator"
QUICK = Limits(check_seconds=5, submission_seconds=60)


def notebook(answer: str, test: str = TEST, own: Sequence[str] = (), setup: str = SET_UP) -> NotebookNode:
    """A set-up cell, the student's own cells, the answer, a test."""
    cells = [
        _cell(setup, grade_id="setup", locked=True, grade=False, solution=False),
        *(new_code_cell(source, metadata={"distlib": {"from": "student"}}) for source in own),
        _cell(answer, grade_id="shift", locked=False, grade=False, solution=True),
        _cell(test, grade_id="shift_hidden", locked=True, grade=True, solution=False, points=2),
    ]
    return new_notebook(cells=cells)


def _cell(source: str, **mark: object) -> NotebookNode:
    return new_code_cell(source, metadata={"nbgrader": {"schema_version": 3, **mark}})


def run(answer: str, test: str = TEST, own: Sequence[str] = (), limits: Limits = QUICK) -> Judged:
    with shared_fork_server(limits).for_submission() as server:
        return judge_in(server, notebook(answer, test, own))


def told(judged: Judged) -> str:
    """What the test cell's error says, on one line; empty if it passed."""
    errors = [output for output in judged.notebook.cells[-1].outputs if output.output_type == "error"]
    return " ".join("\n".join(errors[0].traceback).split()) if errors else ""


def test_a_test_that_is_not_asked_for_does_not_run() -> None:
    with shared_fork_server(QUICK).for_submission() as server:
        judged = judge_in(server, notebook("wrong", test="1 / 0"), only=["another"])
    assert told(judged) == "" and judged.notebook.cells[-1].execution_count is None
    with shared_fork_server(QUICK).for_submission() as server:
        judged = judge_in(server, notebook("wrong", test="1 / 0"), only=["shift_hidden"])
    assert "ZeroDivisionError" in told(judged) and judged.notebook.cells[-1].execution_count == 3


def test_a_right_answer_passes_and_leaves_no_process() -> None:
    before = set(psutil.Process().children(recursive=True))  # some of other tests may be about to end
    judged = judge(notebook(RIGHT), sandbox=choose_sandbox("none"), limits=QUICK)
    assert told(judged) == ""
    assert judged.notebook.cells[-1].outputs[0].text == "4 cases, with 2 and 3 ranks\n"
    assert judged.remarks == []
    assert set(psutil.Process().children(recursive=True)) - before == set()


TELLING = """
from distlib.checks.training_scores import TrainingScore, tell_trainings

tell_trainings([TrainingScore("two alike", 1.5, 2.0, 0.27, ((0.0, 2.3), (1.5, 0.25)))])
"""


def test_what_a_test_tells_of_trainings_is_data_that_no_print_makes() -> None:
    claims = f"print({json.dumps({KEY: [{'setting': 'two alike', 'seconds': 0.1}]})!r})"
    judged = run(f"{RIGHT}    {claims}\n", TEST + TELLING)
    printed, data = judged.notebook.cells[-1].outputs
    assert printed.output_type == "stream" and KEY in printed.text and "metadata" not in printed
    (score,) = data.metadata[KEY]
    assert TrainingScore.from_data(json.loads(json.dumps(score))).seconds == 1.5
    assert data.data["text/plain"] == "two alike: 1.500 virtual seconds, par 2.000"
    failed = run("def shift(comm, tensor): pass", TELLING + TEST)
    assert [output.output_type for output in failed.notebook.cells[-1].outputs] == ["error"]


def test_the_notebook_that_is_handed_over_stays_as_it_is() -> None:
    before = notebook(RIGHT)
    after = judge(before, sandbox=choose_sandbox("none"), limits=QUICK).notebook
    assert all(cell.outputs == [] for cell in before.cells)
    assert [cell.execution_count for cell in after.cells] == [1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("def shift(comm, tensor): raise NotImplementedError()", "it is not written yet"),
        ("def shift(comm, tensor): pass", "expected"),
        ("def shift(comm, tensor): comm.recv(tensor, (comm.rank + 1) % comm.world_size)", "deadlock. rank 0 waits"),
        ("def shift(comm, tensor): comm.send(tensor[:2] if comm.rank else tensor, 0)", "wants to send to itself"),
        ("def shift(comm, tensor): import os; os._exit(3)", "its process exited with code 3"),
        ("def shift(comm, tensor): import os; os.kill(os.getpid(), 9)", "killed by signal 9"),
        *(
            pytest.param(f"def shift(comm, tensor):\n    while True: {loop}", "not done after", marks=pytest.mark.slow)
            for loop in ("pass", "print('x' * 1000)")
        ),
        ("def shift(comm, tensor): 1 / 0", "ZeroDivisionError: division by zero"),
        ("def shift(comm): pass", "it can't be called with (comm, tensor)"),
        ("shift = 5", "shift is no function here, but something else (cell 2)"),
        ("def shfit(comm, tensor): pass", "its cell defines shfit, and no function of this name"),
        ("def shift(comm, tensor) pass", "can't read cell 2, line 1: expected ':'"),
        ("def shift(comm, tensor): comm._communicator._ask('shout')", "did not keep to the protocol"),
        ("def shift(comm, tensor): comm._communicator._ask('exchange', dst=[])", "TypeError"),
        (
            "def shift(comm, tensor): comm._communicator._ask('helper', name='all_reduce', given={'tensor': tensor})",
            "is not supplied",
        ),
        ("def shift(comm, tensor): comm._communicator._connection.send(b'x' * 50)", "AttributeError"),
        ("def shift(comm, tensor): comm._communicator._wire._connection.send(b'x' * 50)", "did not keep"),
        ("def shift(comm, tensor): comm._communicator._wire.close()", "ended"),
    ],
)
def test_a_wrong_answer_is_told_what_is_wrong(answer: str, words: str) -> None:
    assert words in told(run(answer))


def test_the_line_is_named_where_a_rank_loops() -> None:
    answer = "def shift(comm, tensor):\n    while True:\n        pass"
    assert "rank 0 was computing at cell 2, line" in told(run(answer)).replace("rank 1 was", "rank 0 was")


def test_the_line_is_named_where_ranks_send_without_an_end() -> None:
    answer = f"{RIGHT}    while True:\n        comm.exchange(tensor, 1 - comm.rank, incoming, 1 - comm.rank)"
    found = told(run(answer, limits=Limits(check_seconds=1, submission_seconds=60)))
    assert re.search(r"was computing at cell 2, line \d", found)


def test_each_thread_of_a_rank_gets_its_own_answers() -> None:
    answer = """
import threading
def shift(comm, tensor):
    incoming, before, after = tensor.clone(), (comm.rank - 1) % comm.world_size, (comm.rank + 1) % comm.world_size
    handles = []
    def send():
        handles.append(comm.isend(tensor.clone(), after))
    def receive():
        handles.append(comm.irecv(incoming, before))
    threads = [threading.Thread(target=each) for each in (send, receive)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for handle in handles:
        handle.wait()
    tensor.copy_(incoming)
"""
    assert told(run(answer)) == ""


def test_what_ranks_share_in_a_module_is_not_shared() -> None:
    answer = """
import math
def shift(comm, tensor):
    seen = math.__dict__.setdefault("seen", {})
    seen[comm.rank] = tensor.clone()
    comm.barrier()
    tensor.copy_(seen[(comm.rank - 1) % comm.world_size])
"""
    assert "KeyError" in told(run(answer))


def test_what_the_student_does_to_the_process_does_not_reach_the_test() -> None:
    own = [
        "import sys; sys.displayhook = lambda value: None\nclass Equal:\n    def __eq__(self, other): return True",
        "import builtins; builtins.AssertionError = Exception; check_shift = lambda *a, **k: Equal()",
        "import distlib.checks; distlib.checks.check_shift = check_shift",
    ]
    assert "expected" in told(run("def shift(comm, tensor): return Equal()", own=own))


def test_no_text_of_a_test_reaches_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def encode_and_keep(value: object) -> tuple[bytes, bytes]:
        sent.append(encode(value)[0])
        return encode(value)

    monkeypatch.setattr(wire, "encode", encode_and_keep)
    assert told(run(RIGHT, test=TEST + "\nmarker = 'a word of the hidden test'")) == ""
    together = b"".join(sent)
    assert b"def shift" in together
    for word in (b"a word of the hidden test", b"check_shift", b"world_sizes", b"seed"):
        assert word not in together


def test_the_inputs_depend_on_the_seed_or_else_on_the_hidden_tests() -> None:
    answer = "def shift(comm, tensor):\n    raise ValueError(str(tensor.tolist()))"
    one, same, other = run(answer), run(answer), run(answer, test=TEST + "\n# changed")
    assert told(one) == told(same) != told(other)
    with shared_fork_server(QUICK).for_submission() as server:
        first, again, second = (told(judge_in(server, notebook(answer), seed)) for seed in ("1", "1", "2"))
    assert first == again != second


def test_the_own_cells_of_a_student_run_first_and_their_errors_stay_theirs() -> None:
    own = ["1 / 0\ndef copied(t): return t.clone()", "%matplotlib inline\nfrom torch import empty_like"]
    answer = """
def shift(comm, tensor):
    incoming = empty_like(copied(tensor))
    comm.exchange(tensor, (comm.rank + 1) % comm.world_size, incoming, (comm.rank - 1) % comm.world_size)
    tensor.copy_(incoming)
"""
    judged = run(answer, own=own)
    assert told(judged) == ""
    assert judged.notebook.cells[1].outputs[0].ename == "ZeroDivisionError"


def test_a_test_sees_what_stands_above_it() -> None:
    made = notebook(RIGHT)
    own = new_code_cell("def shift(comm, tensor): pass", metadata={"distlib": {"from": "student"}})
    once_more = _cell(TEST, grade_id="again", locked=True, grade=True, solution=False, points=2)
    made.cells += [own, once_more]
    judged = judge(made, sandbox=choose_sandbox("none"), limits=QUICK)
    first, last = judged.notebook.cells[2], judged.notebook.cells[-1]
    assert [output.output_type for output in first.outputs] == ["stream"]
    assert [output.output_type for output in last.outputs] == ["error"]


def test_worlds_of_a_set_up_cell_start_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forkserver, "current", lambda: pytest.fail("a World was made"))
    made = notebook(RIGHT)
    made.cells[0].source += "\nfrom distlib import World\nfour = World(4)\nfour.run(print)"
    assert told(judge(made, sandbox=choose_sandbox("none"), limits=QUICK)) == ""


@pytest.mark.slow
def test_a_cell_that_ends_its_process_or_does_not_end_is_left_out() -> None:
    limits = Limits(cells_seconds=4)
    judged = run(RIGHT, own=["import os; os._exit(0)", "while True: pass"], limits=limits)
    assert told(judged) == ""
    assert judged.remarks == [
        "cell 2: line 1 ended its process; the rest was graded without it",
        "cell 3: line 1 did not come to an end; the rest was graded without it",
    ]


@pytest.mark.slow
def test_when_the_time_for_the_submission_is_over_the_rest_is_said_to_be_not_graded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranks, "patience", lambda: 1)  # on a busy machine there would be time enough
    monkeypatch.setattr(ranks, "fair_seconds", time.monotonic)  # and less of it would count
    judged = run(RIGHT, own=["import time; time.sleep(1)"] * 3, limits=Limits(reruns_seconds=2))
    assert "the time for the whole notebook is over: 120 s for its tests, 2 s for all" in told(judged)
    grant = "--time-for STUDENT=3 grants three times as much"
    assert f"shift_hidden: the time for this submission was over; {grant}" in judged.remarks


def test_a_function_of_plain_values_is_called_remotely() -> None:
    answer = "def shift(link, sizes):\n    return [link.latency + size / link.bandwidth for size in sizes]"
    test = "from distlib import Link\nassert shift(Link(2.0, 4.0), [4, 8]) == [3.0, 4.0]\nprint('right')"
    assert run(answer, test).notebook.cells[-1].outputs[0].text == "right\n"
    wrong = run("def shift(link, sizes):\n    return open('/etc/passwd')", test)
    assert "TypeError: shift returned a TextIOWrapper, expected plain values or tensors" in told(wrong)
    assert "ValueError: so" in told(run("def shift(link, sizes):\n    raise ValueError('so')", test))
    assert "RunTimeout: not done after" in told(run("import time\ndef shift(link, sizes): time.sleep(1000)", test))


@pytest.mark.slow
def test_a_killed_judge_leaves_no_process(tmp_path: Path) -> None:
    program = tmp_path / "grade.py"
    program.write_text(
        "import os, sys; sys.path.insert(0, os.getcwd())\n"
        "from tests.judge.test_remote_judge import Limits, run\n"
        "endless = Limits(check_seconds=1000, submission_seconds=1000)\n"
        "run('def shift(comm, tensor):\\n    while True: pass', limits=endless)\n"
    )
    process = subprocess.Popen([sys.executable, str(program)])
    found: list[psutil.Process] = []
    while len(found) < 3 and process.poll() is None:
        time.sleep(0.1)
        found = psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(found, timeout=60)
    assert len(found) >= 3
    assert alive == []


def test_a_number_of_numpys_is_a_number() -> None:
    test = "result = shift(3)\nassert type(result) is float and result == 1.5\nprint('right')"
    answer = "import numpy\ndef shift(number): return numpy.float64(number) / 2"
    assert run(answer, test).notebook.cells[-1].outputs[0].text == "right\n"


# ── a class in one sandbox ───────────────────────────────────────────────────────────────────────────────────────────

TELLS = "def shift(comm, tensor):\n    import os\n    raise ValueError(f'{os.getuid()} {os.listdir()}')"
LEAVES_A_FILE = "open('left', 'w').close()"


@pytest.fixture(scope="module")
def judges() -> Iterator[Judges]:
    """Judges of a class in bubblewrap."""
    problem = KINDS["bubblewrap"]().problem()
    if problem is not None:
        pytest.skip(problem)
    with Judges(choose_sandbox("bubblewrap"), QUICK) as opened:
        yield opened


def told_by(judges: Judges, answer: str, own: Sequence[str] = ()) -> str:
    """What the judge of one more submission tells."""
    with judges(notebook(RIGHT)) as judge:
        return told(judge(notebook(answer, own=own)))


def fork_server_of(judges: Judges) -> psutil.Process:
    assert judges._server is not None
    return psutil.Process(judges._server._process.pid)


def test_submissions_in_one_sandbox_share_nothing(judges: Judges) -> None:
    first, second = (told_by(judges, TELLS, own=[LEAVES_A_FILE]) for _ in range(2))
    users = [int(re.findall(r"ValueError: (\d+) \['left'\]", text)[0]) for text in (first, second)]
    assert os.geteuid() != 0 or users[1] - users[0] == USERS_PER_SANDBOX
    last = told_by(judges, TELLS)
    assert "[]" in last and "left" not in last


def test_the_fork_server_stays_and_the_ranks_go(judges: Judges) -> None:
    told_by(judges, RIGHT)
    process = fork_server_of(judges)
    before = process.children(recursive=True)
    with judges(notebook(RIGHT)) as judge:
        assert told(judge(notebook(RIGHT))) == ""
    assert fork_server_of(judges) == process
    wait_until(lambda: set(process.children(recursive=True)) <= set(before), "the ranks have ended")


def test_a_judge_that_is_killed_leaves_room_for_the_next(judges: Judges) -> None:
    told_by(judges, RIGHT)
    server = fork_server_of(judges)
    before = set(server.children(recursive=True))
    with judges(notebook(RIGHT)) as judge:
        process = multiprocessing.get_context("forkserver").Process(
            target=judge, args=(notebook("def shift(comm, tensor):\n    while True: pass"),)
        )
        process.start()
    wait_until(
        lambda: len(set(server.children(recursive=True)) - before) > 1,
        "a fork server of the submission, and a rank",
    )
    process.kill()
    process.join()
    assert told_by(judges, RIGHT) == ""


def test_when_the_sandbox_is_killed_the_next_submission_gets_another(judges: Judges) -> None:
    told_by(judges, RIGHT)
    process = fork_server_of(judges)
    family = [process, *process.children(recursive=True)]
    with judges(notebook(RIGHT)) as judge:
        process.kill()
        for each in family:
            until_gone(each.pid)
        with pytest.raises(CanNotGrade, match="the sandbox has ended before its work was done"):
            judge(notebook(RIGHT))
    assert told_by(judges, RIGHT) == ""
    assert fork_server_of(judges) != process


WITH_JAX = f"import jax\n{SET_UP}"


@pytest.mark.slow
def test_a_framework_is_imported_once_for_a_class(judges: Judges) -> None:
    pytest.importorskip("jax")
    loaded = 'import sys\nraise ValueError(f\'here: {sorted(sys.modules.keys() & {"jax", "torch"})}\')'
    with (
        shared_fork_server(QUICK).for_submission(["jax"]) as server,
        RemoteRanks([RankCell(1, loaded)], [], server, "") as started,
    ):
        started.advance(2)
        started.gather(1)
    assert started.cells.errors[1] == [("ValueError", "here: ['jax', 'torch'] (cell 1, line 2)")]
    made = notebook(RIGHT, setup=WITH_JAX)
    for _ in range(2):
        with judges(made) as judge:
            assert told(judge(made)) == ""
    assert judges._server is not None and judges._server._has_imported == {"jax"}


def test_a_set_up_cell_that_imports_a_framework_runs_on_the_ranks_only() -> None:
    pytest.importorskip("jax")
    made = notebook(RIGHT, setup=f"{WITH_JAX}\nhere = True", test=f"assert 'here' not in globals()\n{TEST}")
    assert told(judge(made, sandbox=choose_sandbox("none"), limits=QUICK)) == ""


def test_a_framework_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frameworks, "is_there", lambda name: False)
    with pytest.raises(CanNotGrade, match="this exercise needs jax, which is not installed"):
        judge(notebook(RIGHT, setup=WITH_JAX), sandbox=choose_sandbox("none"), limits=QUICK)


def test_without_a_sandbox_each_submission_has_processes_of_its_own() -> None:
    with Judges(choose_sandbox("none"), QUICK) as judges:
        assert told_by(judges, RIGHT) == ""
        assert judges._server is None


def test_a_fork_server_that_can_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges_forkserver, "_COMMAND", "raise SystemExit('there is no torch')")
    with pytest.raises(CanNotGrade, match="the sandbox has ended before its work was done. there is no torch"):
        judge(notebook(RIGHT), sandbox=choose_sandbox("none"), limits=QUICK)
