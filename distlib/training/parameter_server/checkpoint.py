"""What a server knows, kept where it survives the server: in a file here, on another rank in `replica`."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from distlib.arguments import check_integer


@dataclass(frozen=True)
class Checkpoint:
    """A server between two updates.

    Attributes:
        version: how many updates there have been since the training began.
        samples: of how many samples.
        workers: the ranks that take part.
        parameters: this server's part of them, one-dimensional: the server's own tensor, not a copy.
        optimizer: the optimizer's `state_dict`, such as the momentum.
    """

    version: int
    samples: int
    workers: tuple[int, ...]
    parameters: torch.Tensor
    optimizer: dict[str, Any]

    def to_bytes(self) -> bytes:
        """All of it, for a file or a message."""
        content = io.BytesIO()
        torch.save({**asdict(self), "workers": list(self.workers)}, content)
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Checkpoint:
        """What `to_bytes` was called on."""
        found = torch.load(io.BytesIO(content), weights_only=True)
        return cls(**{**found, "workers": tuple(found["workers"])})


Keep = Callable[[Checkpoint], None]
"""What a server calls after each update, and when a worker has come or gone; it must copy what it wants to keep."""


def keep_in_file(path: str | os.PathLike[str], every: int = 1) -> Keep:
    """Write a checkpoint to `path` after each `every`-th update, for `server_loop(keep=…)`.

    An older one is replaced only when the new one is complete.

    Raises:
        ValueError: `every` is not an integer of at least 1.
    """
    check_integer("keep_in_file", "every", every, 1)

    def keep(checkpoint: Checkpoint) -> None:
        if checkpoint.version % every == 0:
            unfinished = Path(f"{os.fspath(path)}.unfinished")
            unfinished.write_bytes(checkpoint.to_bytes())
            unfinished.replace(path)

    return keep


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """What `keep_in_file` has written last. Raises FileNotFoundError if there is nothing."""
    return Checkpoint.from_bytes(Path(path).read_bytes())
