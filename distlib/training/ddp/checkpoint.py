"""One rank writes a checkpoint, one rank reads it, all ranks have it.

All ranks have the same model, so one copy is enough, and only rank 0 needs access to the disk.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import barrier
from distlib.communicator import Communicator
from distlib.training.replicas import bytes_from_rank_0


@checked
def save_checkpoint(
    comm: Communicator, path: str | os.PathLike[str], module: nn.Module, optimizer: torch.optim.Optimizer, **more: Any
) -> None:
    """Rank 0 writes the state of model and optimizer, and `more`, to `path`; all ranks wait until it is written.

    An older checkpoint at `path` is replaced only when the new one is complete.

    Args:
        more: numbers, text, tensors, and lists and dictionaries of them, such as the epoch.
    """
    if comm.rank == 0:
        unfinished = Path(f"{os.fspath(path)}.unfinished")
        torch.save({"module": module.state_dict(), "optimizer": optimizer.state_dict(), "more": more}, unfinished)
        unfinished.replace(path)
    barrier(comm)


@checked
def load_checkpoint(
    comm: Communicator, path: str | os.PathLike[str], module: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Any]:
    """Rank 0 reads `path` and sends it to all; model and optimizer of every rank get the state, in place.

    Returns:
        What was saved as `more`.

    Raises:
        FileNotFoundError: on rank 0, there is no such file.
    """
    content = bytes_from_rank_0(comm, Path(path).read_bytes() if comm.rank == 0 else b"")
    checkpoint = torch.load(io.BytesIO(content), weights_only=True, map_location=comm.device)
    module.load_state_dict(checkpoint["module"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return dict(checkpoint["more"])
