"""`distlib lab` as a process that tests start, read the address from, and end."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat

Process = subprocess.Popen[str]


@contextmanager
def running_lab(
    folder: Path, port: int = 0, options: Sequence[str] = (), **variables: str
) -> Iterator[tuple[Process, str]]:
    """`distlib lab` without a browser, in a folder; yields its process and the address it printed.

    port: where to start looking for a free one, 0 for any. options: more of them. variables: added to the environment.
    JupyterLab's own files go to a fresh folder beside the course's, so that no tab of an earlier session is restored.
    """
    command = [sys.executable, "-m", "distlib.cli", "lab", "--no-browser", f"--port={port}", *options]
    environment = {**os.environ, "JUPYTER_CONFIG_DIR": str(folder / ".jupyter"), **variables}
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield process, first_address(process)
    finally:
        process.terminate()
        process.wait(timeout=100)


@contextmanager
def running_dark_lab(folder: Path) -> Iterator[str]:
    """The same in the dark theme; yields the address."""
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "themes.jupyterlab-settings").write_text(json.dumps({"theme": "JupyterLab Dark"}))
    with running_lab(folder, JUPYTERLAB_SETTINGS_DIR=str(folder / "settings")) as (_, address):
        yield address


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of these code cells, and the folder that it is in."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)


def first_address(process: Process, timeout: float = 250) -> str:
    """Reads a process's output up to the first line that is an address, and returns that line."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line.strip())
        lines.put("END")

    threading.Thread(target=read, daemon=True).start()
    seen: list[str] = []
    while not seen or not seen[-1].startswith(("http", "END")):
        seen.append(lines.get(timeout=timeout))
    assert seen[-1] != "END", seen
    return seen[-1]
