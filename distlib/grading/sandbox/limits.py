"""How much a submission may use."""

from __future__ import annotations

from dataclasses import dataclass

MEBIBYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """What one submission may use. The defaults are for a class of notebooks of this course.

    Attributes:
        check_seconds: for one check, and for running the student's cells once. More on a busy machine: see `patience`.
        submission_seconds: for everything together; likewise.
        memory_bytes: of one rank, beyond what Python and torch take.
        threads: of one rank, which is one process.
        open_files: of one rank.
        file_bytes: of all files of one rank together.
        output_bytes: of what all ranks print.

    Raises:
        ValueError: one of them is not a number above 0.
    """

    check_seconds: float = 30.0
    submission_seconds: float = 120.0
    memory_bytes: int = 2048 * MEBIBYTE
    threads: int = 64
    open_files: int = 256
    file_bytes: int = 64 * MEBIBYTE
    output_bytes: int = 200_000

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"expected {name} above 0, got {value!r}")
