"""A command in folders of its own: what it works on, its home, its caches. It imports no torch, and starts at once.

    <TMPDIR>/work/train.py      the program
             home/, tmp/        what libraries take for the user's home, and for temporary files
             found/             what is to be handed on: $DISTLIB_FOUND; $DISTLIB_BEGAN is when the command began

`run_processes` runs it, and removes all of it: see `temporary`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from distlib.frameworks import own_network

FOUND, BEGAN = "DISTLIB_FOUND", "DISTLIB_BEGAN"
_EXTENSIONS = "TORCH_EXTENSIONS_DIR"


def run_in_home(source: str, command: list[str], kept_extensions: Path | None) -> tuple[int, dict[str, bytes]]:
    """Run a command in new folders.

    Args:
        source: the text of `train.py`.
        command: its first word is the path of a Python, or of a command next to one.
        kept_extensions: where extensions are kept that torch compiles, from one run to the next.

    Returns:
        Its exit status, and the files that it has left to be handed on.
    """
    top = Path(tempfile.gettempdir())
    folders = {name: top / name for name in ("work", "home", "found", "tmp")}
    for each in folders.values():
        each.mkdir()
    (folders["work"] / "train.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, **_paths(folders), **_settings(command[0])}
    with _extensions(kept_extensions, environment, top / "extensions"):
        environment[BEGAN] = str(time.time())
        status = subprocess.run(command, cwd=folders["work"], env=environment, stdin=subprocess.DEVNULL).returncode
    return status, {file.name: file.read_bytes() for file in folders["found"].iterdir()}


def _paths(folders: Mapping[str, Path]) -> dict[str, str]:
    """Where libraries write to."""
    home, cache, temporary = str(folders["home"]), str(folders["home"] / ".cache"), str(folders["tmp"])
    return {
        **{"HOME": home, "XDG_CACHE_HOME": cache, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home},
        **{"TMPDIR": temporary, "RAY_TMPDIR": temporary, "MPLCONFIGDIR": home, "HF_HOME": cache},
        **{"TRITON_CACHE_DIR": cache, "TORCHINDUCTOR_CACHE_DIR": cache},
        FOUND: str(folders["found"]),
    }


def _settings(python: str) -> dict[str, str]:
    """One thread for each rank, over loopback, and no compiled files next to a package's."""
    return {
        **{"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        "GLOO_SOCKET_IFNAME": own_network.loopback(),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", "")]),
    }


@contextlib.contextmanager
def _extensions(kept: Path | None, environment: dict[str, str], copy: Path) -> Iterator[None]:
    """Extensions that torch has compiled in an earlier run are there, and those of this one are kept.

    A run works on a copy: one that is interrupted while it compiles leaves a lock, and the next one would wait for it.
    """
    if kept is None or _EXTENSIONS in environment:
        environment.setdefault(_EXTENSIONS, str(copy))
        yield
        return
    environment[_EXTENSIONS] = str(copy)
    if kept.exists():
        shutil.copytree(kept, copy)
    yield
    if not kept.exists() and any(copy.rglob("*.so")):
        draft = kept.with_name(f"{kept.name}-{time.time_ns()}")
        shutil.copytree(copy, draft, ignore=shutil.ignore_patterns("lock"))
        try:
            draft.rename(kept)
        except OSError:  # another run was faster
            shutil.rmtree(draft)
