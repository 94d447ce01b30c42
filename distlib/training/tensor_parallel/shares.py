"""Which part of something is a rank's: the parts have equal sizes, so what is cut must be divided by the ranks.

12 rows over 3 ranks            0  1  2  3 | 4  5  6  7 | 8  9 10 11
in 2 sections of 6 rows         0  1       | 2  3       | 4  5            queries of each rank's heads
                                6  7       | 8  9       | 10 11           keys of the same heads
"""

from __future__ import annotations

import torch
from torch import nn

from distlib.communicator import Communicator
from distlib.training.parts_of_whole import note_part


def share(comm: Communicator, what: str, size: int) -> int:
    """The size of each rank's part of `size`.

    Args:
        what: is cut, for the error: "heads".

    Raises:
        ValueError: the ranks do not divide it.
    """
    if size < 1 or size % comm.world_size:
        raise ValueError(
            f"expected a number of {what} that {comm.world_size} ranks divide, got {size}: "
            f"each rank must have as many {what} as the others"
        )
    return size // comm.world_size


def own_range(comm: Communicator, what: str, size: int) -> slice:
    """This rank's part of `size`.

    Raises:
        ValueError: the ranks do not divide it.
    """
    part = share(comm, what, size)
    return slice(comm.rank * part, (comm.rank + 1) * part)


def own_indices(comm: Communicator, what: str, size: int, sections: int = 1) -> list[int]:
    """This rank's part of each of several sections of equal size, one after the other.

    Raises:
        ValueError: the ranks do not divide a section, or the sections do not divide `size`.
    """
    if sections < 1 or size % sections:
        raise ValueError(f"expected a number of {what} that {sections} sections divide, got {size}")
    section = size // sections
    own = range(section)[own_range(comm, what, section)]
    return [start + index for start in range(0, size, section) for index in own]


def note_cut(comm: Communicator, part: torch.Tensor) -> nn.Parameter:
    """A parameter that is this rank's part of a whole one, noted as that."""
    return note_part(nn.Parameter(part), comm, "clip_over_groups of distlib.training.mesh, or step of a HybridTrainer")
