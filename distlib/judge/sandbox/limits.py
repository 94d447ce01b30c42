"""How much a submission may use."""

from __future__ import annotations

from dataclasses import dataclass, replace

MEBIBYTE = 2**20
CUT = "\n… more was printed, and is left out here. That costs no marks.\n"


@dataclass(frozen=True)
class Limits:
    """What one submission may use. The defaults are for a class of notebooks of this course.

    Attributes:
        check_seconds: for one check. More on a busy machine: see `patience`.
        submission_seconds: for all checks together; likewise.
        cells_seconds: for running the student's cells once; likewise. This and the next are not time of the checks.
        reruns_seconds: for all that the student's cells run on all ranks together; likewise.
        memory_bytes: of one rank, beyond what Python and torch take.
        together_bytes: of all ranks together, likewise; where it is more, one is ended.
        threads: of one rank, which is one process.
        open_files: of one rank.
        file_bytes: of all files of one rank together.
        output_bytes: of what is printed in one cell, or by all ranks in one run, as much is kept to be shown. The rest
            is left out, and costs nothing.

    Raises:
        ValueError: one of them is not a number above 0.
    """

    check_seconds: float = 30.0
    submission_seconds: float = 120.0
    cells_seconds: float = 60.0
    reruns_seconds: float = 300.0
    memory_bytes: int = 2048 * MEBIBYTE
    together_bytes: int = 4096 * MEBIBYTE
    threads: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MEBIBYTE
    output_bytes: int = 20_000

    def times(self, factor: float) -> Limits:
        """Limits with that many times as much time."""
        names = ("check_seconds", "submission_seconds", "cells_seconds", "reruns_seconds")
        return replace(self, **{name: factor * getattr(self, name) for name in names})

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"expected {name} above 0, got {value!r}")


def statement_seconds(left: float) -> float:
    """How long the next statement of the student's cells may take, when `left` of `cells_seconds` is left.

    Half of that: a slow one leaves time for those after it. And never less than a second, which is plenty for a
    definition, so that the functions below slow experiments are there all the same.
    """
    return max(1.0, left / 2)
