"""Processes that a notebook starts: what its cells show, and an interrupt."""

from collections.abc import Iterator

import pytest

from tests.worlds.test_notebook import Notebook

WAIT = """
import time
def wait():
    print("waiting")
    while True:
        time.sleep(0.01)
run_processes({"chief": Process(wait)}, seconds=1000)
"""


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    notebook = Notebook()
    notebook.value("from distlib.frameworks import *")
    notebook.value("from distlib.frameworks import processes\nprocesses._STACK_PATIENCE = 60")
    yield notebook
    notebook.close()


def test_a_function_of_a_cell_runs_elsewhere(notebook: Notebook) -> None:
    notebook.value("import os\nfactor = 2\ndef f(x):\n    print('in', os.getpid() != 0)\n    return factor * x")
    printed = notebook.value("print(run_processes({'a': Process(f, 3)}, seconds=100)['a'].value)")
    assert printed == "a │ in True\n6\n"


def test_an_error_begins_with_cell_and_line(notebook: Notebook) -> None:
    notebook.value("def fail():\n    return {}['key']")
    cell = notebook.number
    _, error = notebook.cell("run_processes({'chief': Process(fail)}, seconds=100)")
    assert error is not None
    lines = error["traceback"]
    assert lines[0] == f"ProcessError: cell {cell}, line 2: chief raised KeyError: 'key'"
    assert any("return {}['key']" in line for line in lines)
    assert "in fail" in notebook.value("import sys; print(sys.last_value.stack)")
    assert not any("distlib/frameworks" in line for line in lines)


def test_an_interrupt_says_where_it_was_and_the_kernel_lives(notebook: Notebook) -> None:
    running = notebook.client.execute(WAIT)
    while notebook.client.get_iopub_msg(timeout=100)["content"].get("text") != "chief │ waiting\n":
        pass
    notebook.manager.interrupt_kernel()
    _, error = notebook.finish(running)
    assert error is not None
    assert error["traceback"][0].startswith("Interrupted. chief was at cell ")
    assert notebook.value("print(1 + 1)") == "2\n"
