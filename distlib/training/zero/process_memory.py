"""The memory that a whole process has, and why it may not become less when tensors are freed.

    tensor freed ──► the C library's malloc ──► the system
                     keeps blocks below a threshold for later, in a heap that can only shrink at its end

glibc asks the system for blocks of at least 128 KiB one by one at first, and gives these back when they are freed. But
whenever one is given back, it raises this threshold to the size of that block, up to 32 MiB: after the first layer was
freed, the next ones come from the heap. A unit that is gathered and freed all the time then leaves holes, and the
process seems to have as much memory as without any sharding. With a fixed threshold it does give it back:

    MALLOC_MMAP_THRESHOLD_=65536 python train.py         for a program that is started
    return_large_blocks(65536)                           for the process that runs, on Linux with glibc

Source: "malloc tunable parameters" in the manual of the GNU C library; mallopt(3).
"""

from __future__ import annotations

import ctypes

from distlib.arguments import check_integer

_M_MMAP_THRESHOLD = -3  # of <malloc.h>


def return_large_blocks(threshold: int = 65536) -> bool:
    """From now on give freed blocks of at least `threshold` bytes back to the system, in this process.

    Returns:
        Whether that could be set; False where the C library is not glibc.

    Raises:
        ValueError: a threshold below 1.
    """
    check_integer("return_large_blocks", "threshold", threshold, 1)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_M_MMAP_THRESHOLD, threshold))
