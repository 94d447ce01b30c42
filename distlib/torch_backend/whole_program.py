"""`run_program`: a whole program of plain torch, as torchrun would start it, on the ranks of a world.

    run_program(World(4), Path("train.py"), ["--epochs", "3"])        torchrun --nproc-per-node 4 train.py --epochs 3

The program is not changed. It calls `init_process_group` with whatever backend, and its messages are the world's: they
stand in the trace, and a mistake is named with rank and line. What the program finds around it, `program_surroundings`
says.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from distlib.arguments import described
from distlib.communicator import Communicator
from distlib.torch_backend.program_surroundings import surroundings
from distlib.trace import CallSite
from distlib.worlds.call_site import describe_place, learn_cells
from distlib.worlds.code_files import remember_lines
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.world import World
from distlib.worlds.simulated.simulator import SimulatedWorld

_PASSES_ON = True  # see worlds.call_site

_NAME = "program.py"


class ProgramEnded(Exception):
    """A program has called `sys.exit`, or the like, with a status that says that something is wrong."""


class ProgramSyntaxError(RankError):
    """A program is no Python. It has not begun."""


def run_program(
    world: World | SimulatedWorld,
    program: str | Path,
    argv: Sequence[str] = (),
    *,
    timeout: float | None = None,
    file: str = "",
) -> None:
    """Run a program of torch.distributed on the ranks of a world, each as if torchrun had started it.

    Args:
        world: a World, or a SimulatedWorld(…, contexts="threads").
        program: its text, or a Path to its file.
        argv: the words that follow its name on a command line.
        timeout: seconds after which the run is stopped; None for no limit.
        file: the name by which errors call the lines of a text; for a Path, its own.

    A program ends with its last line, or with `sys.exit()`. Whether it destroys its process groups is up to it.

    Raises:
        ProgramSyntaxError: the program is no Python; a RankError, too.
        OSError: its file can't be read.
        RankError: as `World.run`. With a status other than 0 a program has failed.
        TypeError, ValueError: a world, a program or an argv that is none.
    """
    _check_world(world)
    source, name, folder = _read(program, file)
    words = _words(argv)
    _compile(source, name)
    if not folder:
        remember_lines(name, source)
    world.run(_run_as_main, source, name, words, folder, _free_port(), timeout=timeout)


def _run_as_main(comm: Communicator, source: str, file: str, argv: list[str], folder: str, port: int) -> None:
    """What each rank runs.

    Raises:
        ProgramEnded: the program has ended with a status other than 0.
        BaseException: whatever the program raises.
    """
    if not folder:
        remember_lines(file, source)
    with surroundings(comm, [file, *argv], folder, port) as main:
        try:
            exec(compile(source, file, "exec", dont_inherit=True), vars(main))
        except SystemExit as end:
            if end.code not in (None, 0):
                _fail(end)


def _fail(end: SystemExit) -> NoReturn:
    status = f"status {end.code}" if isinstance(end.code, int) else f"status 1 and the words: {end.code}"
    raise ProgramEnded(f"the program has ended itself, with {status}").with_traceback(end.__traceback__) from None


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_world(world: World | SimulatedWorld) -> None:
    if isinstance(world, SimulatedWorld):
        if world.contexts != "threads":
            raise ValueError(
                "run_program needs a thread for each rank, since torch keeps its process groups by thread: make the "
                f'world with SimulatedWorld({world.world_size}, contexts="threads")'
            )
    elif not isinstance(world, World):
        raise TypeError(f"run_program expected a World first, got {described(world)}: try run_program(World(4), …)")


def _read(program: str | Path, file: str) -> tuple[str, str, str]:
    """The text of a program, the name of its file, and the folder of that; "" if it has none."""
    if isinstance(program, os.PathLike):
        path = Path(program).absolute()
        return path.read_text(encoding="utf-8"), str(path), str(path.parent)
    if not isinstance(program, str):
        raise TypeError(f"run_program expected the text of a program, or a Path to it, got {described(program)}")
    if "\n" not in program and program.endswith(".py"):
        raise ValueError(f"run_program expected the text of a program, got a name: try Path({program!r})")
    return program, file or _NAME, ""


def _words(argv: Sequence[str]) -> list[str]:
    if isinstance(argv, str):
        raise TypeError(f"run_program expected a list of words as argv, got {argv!r}: try {argv.split()!r}")
    return [str(word) for word in argv]


def _compile(source: str, file: str) -> None:
    """Check that a text is Python. Raises ProgramSyntaxError."""
    learn_cells()
    try:
        compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        remember_lines(file, source)
        line = error.lineno or 1
        site = CallSite(describe_place(file, line), "<module>", file, line)
        raise ProgramSyntaxError(f"{site.place}: SyntaxError: {error.msg}", site=site) from None


def _free_port() -> int:
    """A port that nobody has now: for MASTER_PORT, of which a program may make use."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])
