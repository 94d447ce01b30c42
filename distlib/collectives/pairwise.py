"""All-to-all in pairs: every rank has a separate piece for every rank.

    step 1:  0 ──► 1 ──► 2 ──► 3 ──► 0      rank r sends its piece for rank r+1, and receives from r−1
    step 2:  0 ──► 2 ──► 0   1 ──► 3 ──► 1  … for rank r+2, and from r−2
    step 3:  0 ──► 3 ──► 2 ──► 1 ──► 0      … for rank r+3, and from r−3

In every step each rank sends one message and receives one, so no port has to wait. Cost for N ranks with S bytes each:
(N−1)·(α + S/(N·B)).

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", Int. J.
High Perform. Comput. Appl. 19(1), 2005.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from distlib.collectives.arguments import announced, check_communicator, check_tensors
from distlib.collectives.collective import unseen_by_autograd
from distlib.communicator import Communicator


def all_to_all(comm: Communicator, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """Send inputs[j] to rank j, and receive what rank j has for this rank into outputs[j], in place.

    Args:
        outputs: a tensor for every rank to receive from, with as many elements as that rank sends, of the same dtype.
        inputs: a tensor for every rank to send to. They are not changed. No output shares memory with an input.

    Raises:
        TypeError: no communicator, not lists, or something in them that is not a tensor.
        ValueError: not one output and one input for each rank, or the piece for this rank itself does not fit.
        MessageMismatch: an output does not fit what another rank sends.
    """
    check_communicator("all_to_all", comm)
    rank, size = comm.rank, comm.world_size
    check_tensors("all_to_all", "outputs", outputs, size, written=True)
    check_tensors("all_to_all", "inputs", inputs, size, written=False)
    own, kept = inputs[rank], outputs[rank]
    if own.numel() != kept.numel() or own.dtype != kept.dtype:
        raise ValueError(
            f"all_to_all: rank {rank} keeps inputs[{rank}] itself, with {own.numel()} elements of {own.dtype}, "
            f"but outputs[{rank}] has {kept.numel()} of {kept.dtype}"
        )
    comm = announced(comm, "all_to_all")
    with unseen_by_autograd(kept):
        kept.copy_(own.reshape(kept.shape))
        for step in range(1, size):
            next_rank, previous_rank = (rank + step) % size, (rank - step) % size
            comm.exchange(inputs[next_rank], next_rank, outputs[previous_rank], previous_rank)
