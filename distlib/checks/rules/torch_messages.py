"""Rules about the messages of torch's own collectives: how many bytes each kind of call has sent, rank by rank.

A message of torch's names its call, in torch's words: `message.site.call` is "all_gather_into_tensor(4 × 6 float32)".
"""

from __future__ import annotations

from collections import Counter

import torch

from distlib.checks.formatting import dtype_name
from distlib.trace import Trace

POINT_TO_POINT = "send"


def bytes_by_kind(trace: Trace, rank: int, dtype: torch.dtype | None = None) -> Counter[str]:
    """The bytes that a rank has sent, by the kind of call. Empty messages are left out.

    `dtype`: count those of this one alone. torch also sends numbers of its own, whole ones, to compare the ranks.
    """
    counted = trace.filter(lambda each: each.nbytes > 0 and (dtype is None or each.dtype == dtype_name(dtype)))
    return Counter({name or POINT_TO_POINT: sent.nbytes for name, sent in counted.by_collective(rank).items()})


def messages_by_size(trace: Trace, rank: int) -> Counter[tuple[str, int]]:
    """How many messages a rank has sent, by the kind of call and their bytes. Empty messages are left out."""
    own = (message for message in trace if message.src == rank and message.nbytes)
    return Counter((message.site.collective or POINT_TO_POINT, message.nbytes) for message in own)
