"""Attention over a cut sequence in virtual time: the messages of the real functions, sleeps in the place of computing.

Tensors have shapes but no numbers (torch's meta device). A rank sleeps for as long as its device would compute the
pairs of query and key that it sees: forward 4 · head operations a pair (two products of matrices), backward 10 · head
(five). So it is with a kernel that leaves out what a mask hides, on a device that reaches `flops`; real ones reach less
with short blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from distlib.communicator import Communicator
from distlib.network import Cluster
from distlib.training.long_sequences.attention_work import visible_pairs
from distlib.training.long_sequences.circulation import circulate, circulate_and_collect
from distlib.training.long_sequences.sequence_order import ORDERS
from distlib.training.long_sequences.ulysses import heads_to_sequence, sequence_to_heads
from distlib.worlds.simulated.simulator import SimulatedWorld

FORWARD, BACKWARD = 4, 10  # operations, for each feature of the head


class AttentionTask(NamedTuple):
    """What is to be computed.

    Attributes:
        batch, heads, sequence, head: of the whole; `head` is the number of features of a head.
        flops: what the device of a rank computes in a second.
        causal: whether a position sees only itself and those before it.
        dtype: of what is sent.
    """

    heads: int
    sequence: int
    head: int = 128
    batch: int = 1
    flops: float = 400e12
    causal: bool = True
    dtype: torch.dtype = torch.bfloat16

    def seconds(self, pairs: float, operations: int = FORWARD) -> float:
        """What so many pairs take, in as many heads as there are."""
        return pairs * operations * self.head * self.batch * self.heads / self.flops

    def block(self, ranks: int, *first: int) -> torch.Tensor:
        """A rank's part of keys, with dimensions before it: shape only."""
        shape = (*first, self.batch, self.heads, self.sequence // ranks, self.head)
        return torch.empty(shape, dtype=self.dtype, device="meta")


def play_ring(comm: Communicator, task: AttentionTask, order: str, backward: bool = False) -> list[tuple[float, float]]:
    """What a rank does in `ring_attention`, forward and, if asked, then backward.

    Returns:
        From when to when it computes, in virtual seconds, step by step.
    """
    steps = visible_pairs(comm.world_size, task.sequence, order, causal=task.causal)
    spans: list[tuple[float, float]] = []

    def compute(source: int, operations: int) -> None:
        pairs = steps[(comm.rank - source) % comm.world_size][comm.rank]
        start = comm.time()
        comm.sleep(task.seconds(pairs, operations))
        spans.append((start, comm.time()))

    def addend(source: int, arrived: torch.Tensor) -> torch.Tensor:
        compute(source, BACKWARD)
        return torch.empty_like(arrived, dtype=torch.promote_types(task.dtype, torch.float32))

    block = task.block(comm.world_size, 2)
    circulate(comm, block, lambda source, _: compute(source, FORWARD))
    if backward:
        circulate_and_collect(comm, block, addend)
    return spans


def play_ulysses(comm: Communicator, task: AttentionTask, backward: bool = False) -> None:
    """What a rank does in `ulysses_attention`, forward and, if asked, then backward."""
    pairs = task.sequence * (task.sequence + 1) // 2 if task.causal else task.sequence**2
    for operations in (FORWARD, BACKWARD) if backward else (FORWARD,):
        # Backward, the gradient of the output comes first, then those of queries, keys and values go back.
        before, after = (3, 1) if operations == FORWARD else (1, 3)
        whole = sequence_to_heads(comm, task.block(comm.world_size, before))
        comm.sleep(task.seconds(pairs, operations) / comm.world_size)
        heads_to_sequence(comm, whole.new_empty(after, *whole.shape[1:]))


def attention_seconds(cluster: Cluster, task: AttentionTask, method: str, *, backward: bool = False) -> float:
    """How long it takes all ranks of a cluster, in virtual seconds.

    Args:
        method: "contiguous" or "zigzag", a ring in this order; or "ulysses".
        backward: also backward; else forward alone.

    Raises:
        ValueError: an unknown method.
        RankError: the sequence or, for Ulysses, the heads can't be cut.
    """
    if method not in (*ORDERS, "ulysses"):
        raise ValueError(f"expected a method from {', '.join((*ORDERS, 'ulysses'))}, got {method!r}")
    simulated = SimulatedWorld(cluster.world_size, cluster, record=False)
    if method == "ulysses":
        simulated.run(play_ulysses, task, backward)
    else:
        simulated.run(play_ring, task, method, backward)
    return simulated.elapsed
