"""A layer of experts in virtual time: what an unbalanced router costs.

Each rank sends its rows, the experts compute as many rows as came, the rows go back. Nobody can go on before the rank
with most rows has computed them: the layer is as slow as that one, and the others wait.

Tensors have shapes but no numbers (torch's meta device); the messages are those of `dispatch_to_experts` and `combine`,
without the small ones that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from distlib.communicator import Communicator
from distlib.network import Cluster
from distlib.training.experts.dispatch import exchange_rows
from distlib.worlds.simulated.simulator import SimulatedWorld


class ExpertTimes(NamedTuple):
    """Of one layer, forward, in seconds.

    Attributes:
        total: until the last rank is done.
        computing: how long each rank computes, indexed by rank.
    """

    total: float
    computing: list[float]


def expert_seconds(
    cluster: Cluster,
    rows: Sequence[Sequence[int]],
    features: int,
    seconds_per_row: float,
    dtype: torch.dtype = torch.bfloat16,
) -> ExpertTimes:
    """Dispatch, experts and combine, in virtual time.

    Args:
        cluster: its ranks have the experts.
        rows: [from][to], how many rows a rank sends to the experts of another one, or keeps.
        features: of a row.
        seconds_per_row: what an expert takes for one.
        dtype: of what is sent.

    Raises:
        ValueError: not as many numbers as there are pairs of ranks.
    """
    size = cluster.world_size
    if len(rows) != size or any(len(row) != size for row in rows):
        raise ValueError(f"expected {size} × {size} numbers of rows, one for each pair of ranks, got {rows}")
    simulated = SimulatedWorld(size, cluster, record=False)
    spans = simulated.run(play_experts, rows, features, seconds_per_row, dtype)
    return ExpertTimes(simulated.elapsed, [end - start for start, end in spans])


def play_experts(
    comm: Communicator,
    rows: Sequence[Sequence[int]],
    features: int,
    seconds_per_row: float,
    dtype: torch.dtype = torch.bfloat16,
) -> tuple[float, float]:
    """What a rank does in such a layer; the arguments are those of `expert_seconds`.

    Returns:
        From when to when it computes, in virtual seconds.
    """
    sent, received = list(rows[comm.rank]), [row[comm.rank] for row in rows]
    tokens = torch.empty(sum(sent), features, dtype=dtype, device="meta")
    came = exchange_rows(comm, tokens, sent, received)
    start = comm.time()
    comm.sleep(len(came) * seconds_per_row)
    end = comm.time()
    exchange_rows(comm, came, received, sent)
    return start, end
