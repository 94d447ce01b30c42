"""Tensors between the ranks of one machine through files, for systems where ranks can't read each other's memory.

The message that announces a tensor names a file in the world's private directory, which lies in memory where there is
room. The rank that takes the tensor reads the file and removes it. Each byte is copied twice, as by TCP. But a file has
no other end that could die: what was announced can be read, and nothing else of the two ranks is disturbed.
"""

from __future__ import annotations

import contextlib
import os

import torch

from distlib.worlds.tensor_bytes import as_bytes, dense, landing_of


class TensorFiles:
    """The files of one rank.

    Args:
        directory: the world's private directory.
        rank: whose they are.
    """

    def __init__(self, directory: str, rank: int) -> None:
        self._prefix = os.path.join(directory, f"tensor-{rank}-")
        self._written = 0
        self._removed = 0

    def write(self, tensor: torch.Tensor) -> str:
        """Write the elements of a tensor, in row order. Returns the path.

        Raises:
            OSError: there is no room.
        """
        self._written += 1
        path = f"{self._prefix}{self._written}"
        with open(path, "wb") as file:
            file.write(as_bytes(dense(tensor)).numpy().data)
        return path

    def clear(self) -> None:
        """Remove the files that nobody has read."""
        while self._removed < self._written:
            self._removed += 1
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._prefix}{self._removed}")


def read_tensor(path: str, tensor: torch.Tensor) -> None:
    """Fill `tensor` with what a file holds, and remove the file. In place."""
    landing = landing_of(tensor)
    with open(path, "rb") as file:
        file.readinto(as_bytes(landing).numpy().data)
    os.unlink(path)
    if landing is not tensor:
        tensor.detach().copy_(landing)
