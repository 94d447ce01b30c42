"""The checks of `distlib doctor`. Each looks at one thing and returns a Finding.

What a check learns from the outside is a keyword argument with a default, so that a test can describe a broken machine.
"""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distlib.cli.course_folder import find_course
from distlib.shadowing import said_of_shadows, shadowing_files

OLDEST_PYTHON = (3, 11)
MEBIBYTE = 2**20
GIBIBYTE = 2**30
COMMAND_TIMEOUT = 200.0  # seconds for a command that a check starts, on a busy machine

# Two ranks of a World exchange one number each.
RANKS_PROBE = """
import torch
from distlib import World

def swap(comm):
    other = 1 - comm.rank
    received = torch.zeros(1)
    comm.exchange(torch.tensor([float(comm.rank)]), other, received, other)
    return received.item()

with World(2) as world:
    print(world.run(swap, timeout=100))
"""


@dataclass(frozen=True)
class Finding:
    """What one check found. level: "ok", "note" (works, with a limit worth knowing) or "problem"."""

    level: Literal["ok", "note", "problem"]
    message: str
    remedy: str = ""


def check_names(*, folder: Path | None = None) -> Finding:
    """No file next to a notebook has the name of a library."""
    here = folder or Path.cwd()
    course = find_course(here)
    places = {here, *({path.parent for path in course.glob("[!.]*/**/*.ipynb")} if course is not None else ())}
    shadows = shadowing_files([str(place) for place in sorted(places)])
    if shadows:
        return Finding("problem", f"a library's: {', '.join(shadows)}", said_of_shadows(shadows))
    return Finding("ok", "no file here has a library's")


def check_python(*, version: Sequence[int] = tuple(sys.version_info[:3])) -> Finding:
    """Python is new enough."""
    text = ".".join(str(part) for part in version)
    if tuple(version[:2]) < OLDEST_PYTHON:
        return Finding("problem", f"{text} is too old: 3.11 or newer is needed", "make env PYTHON=/path/to/python3.11")
    return Finding("ok", f"{text} ({sys.executable})")


def check_torch() -> Finding:
    """torch can be imported; which version, for CPU or CUDA."""
    try:
        import torch
    except Exception as error:  # a broken installation raises OSError and others besides ImportError
        return Finding("problem", f"can't be imported: {last_line(str(error))}", "delete .venv, then make env")
    build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
    return Finding("ok", f"{torch.__version__}, {build}")


def check_other_distlib(*, installed: Sequence[str] | None = None, location: Path | None = None) -> Finding:
    """`import distlib` is this course, not the distribution `distlib` of the package index.

    installed: names of installed distributions; location: the folder that `import distlib` takes.
    """
    names = _distributions() if installed is None else installed
    ours = Path(__file__).parents[1]
    location = _package_folder("distlib") if location is None else location
    if "distlib" in names:
        return Finding(
            "problem",
            "another distribution, also called distlib, is installed here: the two overwrite each other",
            "make a fresh environment without it: delete .venv, then make env (virtualenv and pre-commit bring it in)",
        )
    if location != ours:
        return Finding(
            "problem",
            f"import distlib takes {location}, not the course's {ours}",
            "start Python elsewhere, or rename that folder",
        )
    return Finding("ok", f"the course's own ({ours})")


def check_ranks(*, probe: str = RANKS_PROBE, timeout: float = COMMAND_TIMEOUT) -> Finding:
    """Two ranks start and exchange a message. In a process of its own, so that a crash can't end doctor."""
    remedy = "run `distlib doctor` in a fresh terminal; if the problem persists, report this line"
    try:
        done = run_command([sys.executable, "-c", probe], timeout)
    except subprocess.TimeoutExpired:
        return Finding("problem", f"two ranks did not start within {timeout:.0f} s", remedy)
    if done.returncode:
        return Finding("problem", f"two ranks can't exchange a message: {last_line(done.stderr)}", remedy)
    if done.stdout.strip() != "[1.0, 0.0]":
        return Finding("problem", f"two ranks exchanged [1.0, 0.0] and got {done.stdout.strip()}", remedy)
    return Finding("ok", "two ranks started and exchanged a message")


@dataclass(frozen=True)
class GpuFacts:
    """usable: GPUs that torch can use; nccl, cuda_build: what torch was built with; driver: nvidia-smi is there."""

    usable: int
    nccl: bool
    cuda_build: bool
    driver: bool

    @classmethod
    def of_this_machine(cls) -> "GpuFacts":
        """Asks torch and PATH."""
        import torch

        usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
        nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
        return cls(usable, nccl, torch.version.cuda is not None, shutil.which("nvidia-smi") is not None)


def check_gpus(*, facts: GpuFacts | None = None) -> Finding:
    """How many GPUs torch can use, and whether NCCL is there. Nothing needs a GPU, so nothing here is a problem."""
    try:
        facts = facts or GpuFacts.of_this_machine()
    except Exception as error:
        return Finding("note", f"can't tell: {last_line(str(error))}", "see the line about torch")
    if facts.usable and facts.nccl:
        own = f"World(n) takes one for each of up to {facts.usable} ranks; " if facts.usable > 1 else ""
        return Finding("ok", f"{facts.usable}, NCCL: {own}with World(n, backend='nccl') more ranks share them")
    if facts.usable:
        return Finding("note", f"{facts.usable}, but this torch has no NCCL", "ranks use gloo on the CPU")
    if facts.driver and not facts.cuda_build:
        return Finding("note", "an NVIDIA driver, but torch is a CPU build", "install a CUDA build of torch in .venv")
    if facts.driver:
        return Finding(
            "note", "an NVIDIA driver, but torch finds no GPU", "look at nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    return Finding("note", "none; every lesson and exercise runs without one")


def check_kernel(*, command: str | None = None) -> Finding:
    """Jupyter's kernel `python3` runs this Python. command: the first word of the kernel's command line."""
    remedy = f"{sys.executable} -m ipykernel install --sys-prefix"
    try:
        command = command or _kernel_command()
    except Exception as error:
        return Finding("problem", f"Jupyter has no kernel python3: {last_line(str(error))}", remedy)
    # jupyter_client starts a bare "python" as the Python that it runs in itself.
    if command in ("python", f"python{sys.version_info[0]}") or _same_file(command, sys.executable):
        return Finding("ok", "Jupyter's kernel python3 runs this Python")
    return Finding("problem", f"Jupyter's kernel python3 runs a different Python: {command}", remedy)


def check_nbgrader(*, command: Sequence[str] = (sys.executable, "-m", "nbgrader", "--version")) -> Finding:
    """The command nbgrader can be started."""
    try:
        done = run_command(command, COMMAND_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("problem", f"does not start: {last_line(str(error))}", "make env")
    if done.returncode:
        return Finding("problem", f"does not start: {last_line(done.stderr)}", "delete .venv, then make env")
    return Finding("ok", last_line(done.stdout))


def check_alembic(*, path: str | None = None, folder: Path | None = None) -> Finding:
    """nbgrader finds the command `alembic`. path: a search path like PATH; folder: where this Python's commands lie."""
    folder = Path(sys.executable).parent if folder is None else folder
    found = shutil.which("alembic", path=path)
    if found:
        return Finding("ok", f"nbgrader finds it ({found})")
    if (folder / "alembic").exists():
        return Finding("ok", "nbgrader finds it when it runs in the course's folder (nbgrader_config.py sees to that)")
    return Finding("problem", "not found: nbgrader can't make a gradebook", "make env")


def check_sandbox(*, problems: Mapping[str, str | None] | None = None) -> Finding:
    """A class can be graded in a sandbox. problems: by kind of sandbox, why it can't be used, or None if it can."""
    if problems is None:
        from distlib.judge.sandbox import KINDS

        problems = {name: make().problem() for name, make in KINDS.items() if name != "none"}
    working = [name for name, problem in problems.items() if problem is None]
    if working:
        return Finding("ok", f"a class can be graded in {' or '.join(working)}")
    reasons = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
    return Finding(
        "note", f"none ({reasons})", "only to grade a class: on Linux install bubblewrap, and allow user namespaces"
    )


def check_shared_memory(*, folder: Path = Path("/dev/shm"), system: str = platform.system()) -> Finding:
    """/dev/shm is there, writable and large enough. Only Linux has it.

    A `World` needs some kilobytes there, and else takes the temporary folder; torch's own DataLoader workers need more.
    """
    if system != "Linux":
        return Finding("ok", f"not needed on {system}")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return Finding(
            "problem",
            f"{folder} {'is not writable' if folder.is_dir() else 'is missing'}: torch's DataLoader workers need it",
            f"mount it (docker run --shm-size=1g), or ask who runs the machine to make {folder} writable",
        )
    usage = shutil.disk_usage(folder)
    text = f"{_size(usage.free)} free of {_size(usage.total)}"
    if usage.free < 256 * MEBIBYTE:
        return Finding("note", f"only {text}", "in Docker: docker run --shm-size=1g; elsewhere delete old files in it")
    return Finding("ok", text)


def check_transport(*, problem: str | None = "", timeout: float = COMMAND_TIMEOUT) -> Finding:
    """How tensors travel between the ranks of a World on the CPU. problem: why memory can't be shared; "" to try it."""
    if problem == "":
        probe = "from distlib.worlds.real.shared_memory import problem; print(problem() or '')"
        done = run_command([sys.executable, "-c", probe], timeout)
        problem = done.stdout.strip() if done.returncode == 0 else last_line(done.stderr)
    if not problem:
        return Finding("ok", "shared memory: ranks copy tensors straight from each other")
    return Finding(
        "note",
        f"gloo (TCP within this machine), since {problem}",
        "everything works, large tensors travel more slowly; in an old Docker: docker run --cap-add=SYS_PTRACE",
    )


def check_folder(*, folder: Path | None = None, system: str = platform.release()) -> Finding:
    """There is a course, in WSL in the file system of Linux. folder: the course's; system: the kernel's release."""
    folder = find_course(Path.cwd()) if folder is None else folder
    if folder is None:
        return Finding("note", "there is no course here or in a folder above: this is about the package alone")
    if "microsoft" in system.lower() and re.match(r"/mnt/[a-z](/|$)", str(folder)):
        return Finding(
            "note",
            f"{folder} is on a disk of Windows: from WSL each file there takes long to open",
            f"copy it into Linux: cp -r {shlex.quote(str(folder))} ~/course && cd ~/course && rm -rf .venv && make lab",
        )
    return Finding("ok", f"the course is in {folder}")


def check_classroom(*, folder: Path | None = None) -> Finding:
    """Other users of this machine can't enter classroom/. folder: the course's."""
    folder = find_course(Path.cwd()) if folder is None else folder
    classroom = None if folder is None else folder / "classroom"
    if classroom is None or not classroom.is_dir():
        return Finding("ok", "there is no classroom/ here, with the work of others")
    mode = classroom.stat().st_mode & 0o777
    if mode & 0o007:
        where = shlex.quote(str(classroom))
        return Finding(
            "problem",
            f"all users of this machine can enter {classroom} ({mode:o}): marks, what was handed in, seeds of tests",
            f"chmod 700 {where}    # where several grade, with nbgrader's groupshared: chmod 2770 {where}",
        )
    return Finding("ok", f"{classroom} is closed to other users ({mode:o})")


def check_home(*, home: Path | None = None) -> Finding:
    """Jupyter can write below the home folder."""
    home = Path.home() if home is None else home
    if home.is_dir() and os.access(home, os.W_OK | os.X_OK):
        return Finding("ok", f"{home} is writable")
    return Finding(
        "note",
        f"{home} is not writable: Jupyter keeps no settings",
        "`distlib lab` puts its files elsewhere; for plain `jupyter lab` set HOME to a folder you can write",
    )


def check_temporary_folder(*, folder: Path | None = None) -> Finding:
    """Ranks meet through files in the temporary folder: it must be writable and not full."""
    named = "the temporary folder" if folder is None else str(folder)
    try:
        folder = Path(tempfile.gettempdir()) if folder is None else folder
        named = str(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(MEBIBYTE))
            file.flush()
    except OSError as error:
        reason = error.strerror or error
        return Finding(
            "problem", f"{named} can't be written: {reason}", "free space in it, or set TMPDIR to another folder"
        )
    return Finding("ok", f"{folder}, {_size(shutil.disk_usage(folder).free)} free")


def check_memory(*, available: int | None = None) -> Finding:
    """There is memory for some ranks. available: bytes."""
    if available is None:
        import psutil

        available = int(psutil.virtual_memory().available)
    if available < 2 * GIBIBYTE:
        return Finding("note", f"{_size(available)} available: tight for JupyterLab and 8 ranks", "close programs")
    return Finding("ok", f"{_size(available)} available")


def check_cores(*, count: int | None = None) -> Finding:
    """How many cores the ranks share."""
    if count is None:
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count == 1:
        return Finding("note", "one core: ranks take turns; everything works, only slower")
    return Finding("ok", f"{count} cores; ranks may outnumber them")


def run_command(command: Sequence[str], timeout: float) -> "subprocess.CompletedProcess[str]":
    """Run a command that has no input, and keep what it prints. Raises subprocess.TimeoutExpired."""
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def _distributions() -> list[str]:
    return [str(found.metadata["Name"]).lower() for found in importlib.metadata.distributions() if found.metadata]


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _kernel_command() -> str:
    from jupyter_client.kernelspec import KernelSpecManager

    with warnings.catch_warnings(action="ignore"):  # a home that can't be written has a line of its own
        return str(KernelSpecManager().get_kernel_spec("python3").argv[0])


def _same_file(one: str, other: str) -> bool:
    # Not samefile: the Python of an environment is a link to the one it was made from.
    return os.path.abspath(one) == os.path.abspath(other)


def last_line(text: str) -> str:
    """What an error's text ends with; of a traceback, the exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"


def _size(count: int) -> str:
    if count >= GIBIBYTE:
        return f"{count / GIBIBYTE:.1f} GiB"
    return f"{count / MEBIBYTE:.0f} MiB" if count >= MEBIBYTE else f"{count / 2**10:.0f} KiB"
