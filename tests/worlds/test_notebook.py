"""A world inside a real Jupyter kernel: cells, errors, interrupts, and what is left when the kernel is gone."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from distlib.authoring.lesson_run import kernel_without_ports
from tests.tools.midst import becomes_so, until_in_the_midst, until_there


class Notebook:
    """A kernel, and cells sent to it one after the other."""

    def __init__(self, **environment: str) -> None:
        self.files = ExitStack()
        settings = self.files.enter_context(kernel_without_ports())
        self.manager = KernelManager(kernel_name="python3", config=settings["config"])
        self.manager.start_kernel(env={**os.environ, **environment})
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=200)

    def cell(self, code: str) -> tuple[str, dict[str, Any] | None]:
        """Run a cell. Returns what it printed and its error message, if any."""
        return self.finish(self.client.execute(code))

    def finish(self, message_id: str) -> tuple[str, dict[str, Any] | None]:
        """Wait for a cell that was started with `client.execute`."""
        printed, error = "", None
        while True:
            message = self.client.get_iopub_msg(timeout=200)
            if message["parent_header"].get("msg_id") != message_id:
                continue
            content = message["content"]
            if message["msg_type"] == "execute_input":
                self.number = content["execution_count"]  # what stands in the brackets beside the cell
            elif message["msg_type"] == "stream":
                printed += content["text"]
            elif message["msg_type"] == "error":
                error = content
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return printed, error

    def value(self, code: str) -> str:
        """What a cell prints; it must not fail."""
        printed, error = self.cell(code)
        assert error is None, "\n".join(error["traceback"])
        return printed

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.files.close()


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    """One kernel for the tests that leave it usable."""
    notebook = Notebook()
    notebook.value("import torch\nfrom distlib import *\nworld = World(4)")
    yield notebook
    notebook.close()


def gone(pids: list[int]) -> bool:
    return not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != "zombie"
    except psutil.NoSuchProcess:
        return False


def test_a_function_of_a_cell_and_its_new_version(notebook: Notebook) -> None:
    notebook.value("factor = 2\ndef f(comm):\n    return factor * comm.rank")
    assert notebook.value("print(world.run(f))") == "[0, 2, 4, 6]\n"
    notebook.value("factor = 3\nclass Box:\n    def __init__(self, x): self.x = x")
    assert (
        notebook.value("print(world.run(f), isinstance(world.run(lambda comm: Box(1))[0], Box))")
        == "[0, 3, 6, 9] True\n"
    )


def test_an_error_begins_with_cell_and_line_and_hides_the_framework(notebook: Notebook) -> None:
    _, error = notebook.cell(
        "def fail(comm):\n    if comm.rank == 2:\n        raise ValueError('bad')\nworld.run(fail)"
    )
    assert error is not None and error["ename"] == "RankError"
    assert error["evalue"] == f"cell {notebook.number}, line 3: rank 2 raised ValueError: bad"
    shown = "\n".join(error["traceback"])
    assert "----> " in shown and "raise ValueError('bad')" in shown
    assert "supervisor.py" not in shown and "rank_process.py" not in shown
    assert "rank_process.py" in notebook.value("print(world.last_error.stack)")


def test_a_deadlock_in_a_cell(notebook: Notebook) -> None:
    _, error = notebook.cell("def ring(comm):\n    comm.recv(torch.empty(4), (comm.rank - 1) % 4)\nworld.run(ring)")
    assert error is not None and re.match(
        r"cell \d+, line 2: deadlock\. rank 0 waits to receive 4 float32", error["evalue"]
    )
    assert notebook.value("print(world.run(lambda comm: comm.rank))") == "[0, 1, 2, 3]\n"


def test_prints_of_the_ranks_appear_in_the_cell(notebook: Notebook) -> None:
    printed = notebook.value("world.run(lambda comm: print('hello'))")
    assert sorted(printed.splitlines()) == [f"[rank {rank}] hello" for rank in range(4)]


def test_a_progress_bar_over_runs(notebook: Notebook) -> None:
    code = "import sys\nfrom tqdm import tqdm\nfor _ in tqdm(range(3), file=sys.stdout): world.run(lambda comm: None)"
    assert "100%" in notebook.value(code)


STUCK = {
    "computing": "def stuck(comm):\n    while True: pass",
    "receiving": "def stuck(comm):\n    comm.recv(torch.empty(1), 0) if comm.rank else comm.sleep(1000)",
    "printing": "def stuck(comm):\n    while True: print('x'); comm.sleep(0.001)",
    "inside C++": """
from distlib import torch_distributed
def stuck(comm):
    with torch_distributed(comm, "gloo") as dist:
        dist.recv(torch.empty(1), 0) if comm.rank else comm.sleep(1000)""",
}


def begin_in(folder: Path) -> str:
    """The text of a function by which a rank leaves word in a folder that it has begun."""
    return f"import os, pathlib\ndef begin(comm):\n    pathlib.Path({str(folder)!r}, str(os.getpid())).touch()"


def until_stuck(folder: Path, ranks: int) -> None:
    """Wait until so many ranks have begun, and each of them computes or waits."""
    until_there(folder, "*", ranks)
    until_in_the_midst(int(path.name) for path in folder.iterdir())


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.slow if what == "printing" else ()) for what in STUCK]
)
def test_an_interrupt_stops_the_ranks_and_the_world_goes_on(notebook: Notebook, what: str, tmp_path: Path) -> None:
    notebook.value(STUCK[what])
    place = notebook.number
    notebook.value(begin_in(tmp_path))
    running = notebook.client.execute("world.run(lambda comm: (begin(comm), stuck(comm)))")
    until_stuck(tmp_path, 4)
    notebook.manager.interrupt_kernel()
    _, error = notebook.finish(running)
    assert error is not None and error["ename"] == "RunInterrupted"
    assert error["traceback"] == [f"Interrupted. {error['evalue']}"]
    assert f"cell {place}, line " in error["evalue"] and "world can be used again" in error["evalue"]
    assert notebook.value("print(world.run(lambda comm: comm.rank))") == "[0, 1, 2, 3]\n"


@pytest.mark.slow
def test_two_notebooks_have_ranks_of_their_own(notebook: Notebook, tmp_path: Path) -> None:
    other = Notebook()
    try:
        other.value("import time\nfrom distlib import World\nworld = World(2)")
        other.value(begin_in(tmp_path))
        other.value(f"def wait():\n    while not os.path.exists({f'{tmp_path}/end'!r}): time.sleep(0.01)")
        running = other.client.execute("print(world.run(lambda comm: (begin(comm), wait(), comm.rank)[2]))")
        until_there(tmp_path, "*", 2)
        assert notebook.value("print(world.run(lambda comm: comm.rank))") == "[0, 1, 2, 3]\n"
        (tmp_path / "end").touch()
        assert other.finish(running) == ("[0, 1]\n", None)
    finally:
        other.close()


@pytest.mark.parametrize(
    "what",
    [pytest.param(what, marks=[] if what == "receiving" else pytest.mark.slow) for what in STUCK],
)
def test_a_kernel_that_is_killed_leaves_no_rank(what: str, tmp_path: Path) -> None:
    notebook = Notebook()
    try:
        notebook.value("import os, torch\nfrom distlib import World\nworld = World(3)\n" + STUCK[what])
        code = "print(*world.run(lambda comm: os.getpid()), world.run(lambda comm: os.getppid())[0])"
        pids, directory = notebook.value(f"{code}\nprint(world._pool.directory)").splitlines()
        processes = [int(pid) for pid in pids.split()]
        notebook.value(begin_in(tmp_path))
        notebook.client.execute("world.run(lambda comm: (begin(comm), stuck(comm)))")
        until_stuck(tmp_path, 3)
        os.kill(notebook.manager.provisioner.pid, signal.SIGKILL)
        assert becomes_so(lambda: gone(processes), 60)
        assert becomes_so(lambda: not os.path.exists(directory), 60)
    finally:
        notebook.close()


@pytest.mark.slow
def test_a_kernel_that_is_restarted_leaves_no_rank() -> None:
    notebook = Notebook()
    try:
        notebook.value("import os\nfrom distlib import World\nworld = World(3)")
        processes = [int(pid) for pid in notebook.value("print(*world.run(lambda comm: os.getpid()))").split()]
        notebook.manager.restart_kernel(now=True)
        assert becomes_so(lambda: gone(processes), 60)
    finally:
        notebook.close()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent by itself")
def test_ranks_end_with_their_fork_server() -> None:
    notebook = Notebook()
    try:
        notebook.value("import os\nfrom distlib import World\nworld = World(3)")
        code = "print(world.run(lambda comm: os.getppid())[0], *world.run(lambda comm: os.getpid()))"
        server, *ranks = (int(pid) for pid in notebook.value(code).split())
        os.kill(server, signal.SIGKILL)
        assert becomes_so(lambda: gone(ranks), 60)
        assert notebook.value("print(world.run(lambda comm: comm.rank))") == "[0, 1, 2]\n"  # and there is a new one
    finally:
        notebook.close()


@pytest.mark.slow
def test_a_home_that_can_not_be_written() -> None:
    """JUPYTER_* point elsewhere, as on a cluster; distlib itself writes nothing into the home."""
    notebook = Notebook(HOME="/proc/nowhere")
    try:
        assert notebook.value("from distlib import World\nprint(World(2).run(lambda comm: comm.rank))") == "[0, 1]\n"
    finally:
        notebook.close()


def test_a_full_disk_is_one_clear_error_and_the_kernel_lives(notebook: Notebook) -> None:
    code = """
import tempfile, unittest.mock
full = OSError(28, "No space left on device")
with unittest.mock.patch("tempfile.mkdtemp", side_effect=full):
    World(2).run(lambda comm: None)
"""
    _, error = notebook.cell(code)
    assert error is not None and "Free some space" in error["evalue"]
    assert notebook.value("print(World(2).run(lambda comm: comm.rank))") == "[0, 1]\n"


def test_ipython_stays_in_the_notebook_and_a_function_that_uses_it_is_told_so(notebook: Notebook) -> None:
    """It is a variable of the notebook, and so would travel along."""
    _, error = notebook.cell("ip = get_ipython()\ndef f(comm):\n    %time 1\nworld.run(f)")
    assert error is not None and f"cell {notebook.number}, line 3: " in error["evalue"]
    assert "SimulatedWorld(4)" in error["evalue"]
    assert "CPU times" in notebook.value("SimulatedWorld(1).run(f); ip.run_line_magic('time', '1')")
    _, error = notebook.cell("world.run(lambda comm: ip.run_line_magic('time', '1'))")
    assert error is not None and "work in the notebook's own process" in error["evalue"]


def test_autoreload(notebook: Notebook, tmp_path: Path) -> None:
    helpers = tmp_path / "reloaded_by_itself.py"
    helpers.write_text("def answer():\n    return 'old'\n")
    notebook.value(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n%load_ext autoreload\n%autoreload 2")
    notebook.value("import reloaded_by_itself\nfrom reloaded_by_itself import answer")
    code = "print(world.run(lambda comm: (reloaded_by_itself.answer(), answer()))[0])"
    assert notebook.value(code) == "('old', 'old')\n"
    helpers.write_text("def answer():\n    return 'new!'\n")
    os.utime(helpers, (2e9, 2e9))
    assert notebook.value(code) == "('new!', 'new!')\n"
