"""What ours says: the fault of a patient on the ranks of a `World`, and how the world reports it."""

from __future__ import annotations

import ast
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from distlib.clinic.output_folding import fold
from distlib.worlds.code_files import remember_lines
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.world import World

_FILE = "same_faults.py"
_PATH = Path(__file__).with_name(_FILE)
_TIMEOUT = 5.0


def run_on_our_ranks(name: str, world: World, timeout: float = _TIMEOUT) -> RankError:
    """Run the fault of a patient on the ranks of a world. Returns what the world raises.

    What the ranks print is printed, folded, when the run is over.

    Args:
        name: of the patient.
        world: with as many ranks as the patient has.
        timeout: seconds after which a run is ended. Only a rank that is slow gets there.

    Raises:
        ValueError: there is no such fault on our ranks.
        AssertionError: nothing was raised.
    """
    faults = our_faults()
    if name not in faults:
        raise ValueError(f"there is no {name!r} among the faults that our ranks can have: {', '.join(faults)}")
    with _folded_output(world):
        try:
            world.run(faults[name], timeout=timeout)
        except RankError as error:
            return error
    raise AssertionError(f"the world has not noticed {name}")


@contextlib.contextmanager
def _folded_output(world: World) -> Iterator[None]:
    """Keep what the ranks print in this block; print it afterwards, folded, by rank and stream."""
    printed: dict[tuple[int, str], str] = defaultdict(str)

    def keep(rank: int, stream: str, text: str) -> None:
        printed[rank, stream] += text

    usual, world.on_output = world.on_output, keep
    try:
        yield
    finally:
        world.on_output = usual
        for (rank, _), text in sorted(printed.items()):
            for line in fold(text.splitlines(), _FILE):
                print(f"[rank {rank}] {line}")


def our_faults() -> dict[str, Callable[..., Any]]:
    """The functions of `same_faults`, by name, as if a student had written the file: reports name its lines."""
    source = _PATH.read_text(encoding="utf-8")
    remember_lines(_FILE, source)
    names: dict[str, Any] = {"__name__": "same_faults"}
    exec(compile(source, _FILE, "exec"), names)
    return {node.name: names[node.name] for node in _functions(source)}


def source_on_our_ranks(name: str) -> str:
    """The text of one of them."""
    source = _PATH.read_text(encoding="utf-8")
    found = [ast.get_source_segment(source, node) for node in _functions(source) if node.name == name]
    return str(found[0])


def _functions(source: str) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
