"""What ours says: a patient's own program, unchanged, on the ranks of a `World`; and what the world reports."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator

from distlib.clinic.output_folding import fold
from distlib.clinic.patient_table import PATIENTS
from distlib.torch_backend.whole_program import run_program
from distlib.worlds.diagnosis import RankError
from distlib.worlds.real.world import World

_TIMEOUT = 5.0


def run_on_our_ranks(
    name: str,
    world: World,
    timeout: float = _TIMEOUT,
    *,
    healed: bool = False,
    program: str | None = None,
    quiet: bool = False,
) -> RankError | None:
    """Run a patient's program on the ranks of a world. Returns what the world raises; None if all ranks end well.

    What the ranks print is printed, folded, when the run is over.

    Args:
        name: one of PATIENTS.
        world: with as many ranks as the patient has.
        timeout: seconds after which a run is ended. Only a rank that is slow gets there.
        healed: run the program without its fault.
        program: run this one in its place, such as one that you have mended.
        quiet: do not print what the ranks print.

    Raises:
        ValueError: there is no such patient.
    """
    if name not in PATIENTS:
        raise ValueError(f"there is no patient {name!r}; there are {', '.join(PATIENTS)}")
    patient = PATIENTS[name]
    text = program or (patient.healed if healed else patient.program)
    with _folded_output(world, patient.file, quiet):
        try:
            run_program(world, text, timeout=timeout, file=patient.file)
        except RankError as error:
            return error
    return None


@contextlib.contextmanager
def _folded_output(world: World, file: str, quiet: bool) -> Iterator[None]:
    """Keep what the ranks print in this block; print it afterwards, folded, by rank and stream."""
    printed: dict[tuple[int, str], str] = defaultdict(str)

    def keep(rank: int, stream: str, text: str) -> None:
        printed[rank, stream] += text

    usual, world.on_output = world.on_output, keep
    try:
        yield
    finally:
        world.on_output = usual
        for (rank, _), text in sorted(printed.items()) if not quiet else ():
            for line in fold(text.splitlines(), file):
                print(f"[rank {rank}] {line}")
