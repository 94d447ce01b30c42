"""Which GPU is whose."""

from __future__ import annotations

import os

import torch

_STREAMS = "CUDA_DEVICE_MAX_CONNECTIONS"  # queues of a card per process, 8 unless told; a stream of each pair needs one


def cards_here() -> int:
    """How many GPUs of this machine NCCL can use."""
    return torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0


def identity_of(number: int) -> str:
    """What tells a GPU from all others, on any machine. It starts CUDA in this process."""
    return str(torch.cuda.get_device_properties(number).uuid)


def take_card(number: int, rank: int, shared: bool) -> torch.device:
    """The GPU of this number, for this process and its rank, before NCCL is used here.

    NCCL refuses two ranks of one host on one GPU ("Duplicate GPU detected"). So where GPUs are shared, each rank says
    that it is a host of its own. Then messages go through main memory and this machine's loopback: slow, but they go.

    Args:
        shared: whether another rank may have it, too.
    """
    os.environ.setdefault(_STREAMS, "32")
    if shared:
        os.environ.update({"NCCL_HOSTID": f"rank {rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"})
    device = torch.device("cuda", number)
    torch.cuda.set_device(device)
    return device
