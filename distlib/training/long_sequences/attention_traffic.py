"""What each rank sends for attention over a cut sequence: messages and bytes, exactly.

N ranks; `length` elements in the keys of each, batch · heads · sequence/N · head; S = length · itemsize bytes.

                    forward               backward
    ring            2(N−1)·S              2(N−1)·S + 2N·S         1 rank: nothing
    Ulysses         4(N−1)/N·S            4(N−1)/N·S

In half precision the ring's gradients travel in float32. A ring sends N/2 times as much forward: alike with 2 ranks.
"""

from __future__ import annotations

import torch

from distlib.arguments import checked
from distlib.network import Traffic


@checked
def ring_attention_traffic(world_size: int, length: int, itemsize: int, *, backward: bool = False) -> Traffic:
    """Of `ring_attention`, forward or, with `backward`, backward alone.

    Raises:
        ValueError: no ranks, or a negative length.
    """
    sends, block = world_size - 1, 2 * length
    nbytes = sends * block * itemsize
    if backward and world_size > 1:
        nbytes += world_size * block * max(itemsize, torch.float32.itemsize)
        sends += world_size
    return Traffic([sends] * world_size, [nbytes] * world_size, sends)
