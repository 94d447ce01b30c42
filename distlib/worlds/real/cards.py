"""Which GPU is whose."""

from __future__ import annotations

import os

import torch

MOST_RANKS = 16  # for which NCCL is taken unasked: each pair of ranks has two streams, and a card 32 queues for them
_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"  # hardware queues of a process, 8 unless told; read when CUDA starts


def cards_here() -> int:
    """How many GPUs of this machine NCCL can use."""
    return torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0


def identity_of(number: int) -> str | None:
    """What tells a GPU from all others, on any machine; None if CUDA can't open it. It starts CUDA in this process."""
    os.environ[_QUEUES] = "32"
    try:
        return str(torch.cuda.get_device_properties(number).uuid)
    except (RuntimeError, AssertionError):  # such as a driver that is too old
        return None


def take_card(number: int, rank: int, shared: bool) -> torch.device:
    """The GPU of this number, for this process and its rank, before NCCL is used here.

    NCCL refuses two ranks of one host on one GPU ("Duplicate GPU detected"). So where GPUs are shared, each rank says
    that it is a host of its own. Then messages go through main memory and this machine's loopback: slow, but they go.

    Args:
        shared: whether another rank of this machine may have it, too.
    """
    os.environ[_QUEUES] = "32"
    if shared:
        os.environ.update({"NCCL_HOSTID": f"rank {rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket"})
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device
