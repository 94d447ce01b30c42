"""Checkpoints that a crash can't spoil: half of one is never taken for a whole, and all ranks resume from the same.

    write    payload ──► 00000030.4711.part ──fsync──► rename to 00000030.checkpoint ──fsync of the folder
             a crash before the rename leaves a .part, which nobody reads
    file     magic 8 bytes │ step 8 │ length of the payload 8 │ SHA-256 of step and payload 32 │ payload
             too short, too long, one bit flipped: each is noticed before anything is loaded
    resume   each rank looks for its last good one; the ranks take the last step that is good on all of them

Without the fsync a file system may do the rename first, and the power may fail before the data is on the disk: T. S.
Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp

_MAGIC = b"distlib1"
_HEADER = struct.Struct("<8sqq32s")
_NAME = "{:08d}.checkpoint"
_NONE = -1


class TornCheckpoint(Exception):
    """A file is not a whole checkpoint. The text says what is wrong with it."""


class Checkpoints:
    """The checkpoints of a training whose state is the same on all ranks, as with data parallelism.

    Rank 0 writes. The folder may be one that all ranks see, or each machine may have its own: then give `writes=True`
    on one rank of each.

    Args:
        comm: all ranks.
        folder: made if it is not there.
        keep: how many to keep, at least 2: the last one may turn out to be damaged.
        writes: whether this rank writes; None: if it is rank 0.

    Raises:
        ValueError: `keep` is below 2.
    """

    def __init__(
        self, comm: Communicator, folder: str | os.PathLike[str], keep: int = 3, writes: bool | None = None
    ) -> None:
        if keep < 2:
            raise ValueError(f"expected to keep at least 2 checkpoints, as one may be damaged, got keep={keep}")
        self._comm, self._folder, self._keep = comm, Path(folder), keep
        self._writes = comm.rank == 0 if writes is None else writes
        self._folder.mkdir(parents=True, exist_ok=True)

    def save(self, step: int, state: Any) -> None:
        """Write a checkpoint, and delete those that are too old. On ranks that don't write, nothing happens.

        Args:
            step: how many steps have been done.
            state: what torch.save takes and torch.load gives back with weights_only: tensors, numbers, text, and
                lists and dictionaries of them, such as `state_dict()`.
        """
        if self._writes:
            write_checkpoint(self._folder, step, state)
            older = [other for other in steps_in(self._folder) if other < step]
            for other in older[: 1 - self._keep]:
                checkpoint_path(self._folder, other).unlink(missing_ok=True)

    def resume(self) -> tuple[int, Any]:
        """The last checkpoint that is good on all ranks: its step and its state; (0, None) if there is none.

        All ranks must call it, and all get the same step. A damaged file stays where it is; halves that writers have
        left behind go.
        """
        if self._writes:
            for part in self._folder.glob("*.part"):
                part.unlink(missing_ok=True)
        step = last_common_step(self._comm, good_steps(self._folder))
        return (0, None) if step is None else (step, read_checkpoint(checkpoint_path(self._folder, step))[1])


# ── one file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def write_checkpoint(folder: Path, step: int, state: Any) -> Path:
    """Write a checkpoint so that under its name there is at any time a whole one or none. Returns its path."""
    path, part = checkpoint_path(folder, step), folder / f"{step:08d}.{os.getpid()}.part"
    payload = io.BytesIO()
    torch.save(state, payload)
    data = payload.getvalue()
    with open(part, "wb") as file:
        file.write(_HEADER.pack(_MAGIC, step, len(data), _digest(step, data)) + data)
        file.flush()
        os.fsync(file.fileno())  # the data is on the disk before the name is
    os.replace(part, path)
    _sync_folder(folder)
    return path


def read_checkpoint(path: str | os.PathLike[str]) -> tuple[int, Any]:
    """The step and the state in a file, tensors on the CPU.

    Raises:
        TornCheckpoint: it is cut off, or is not as it was written.
        OSError: it can't be read.
    """
    step, data = _check(Path(path))
    return step, torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step stands."""
    return folder / _NAME.format(step)


def steps_in(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, good or not, in order."""
    return sorted(int(path.stem) for path in folder.glob("*.checkpoint") if path.stem.isdecimal())


def good_steps(folder: Path) -> list[int]:
    """The steps of the checkpoints that are whole, in order."""
    return [step for step in steps_in(folder) if _is_good(checkpoint_path(folder, step), step)]


def _is_good(path: Path, step: int) -> bool:
    with contextlib.suppress(TornCheckpoint, OSError):
        return _check(path)[0] == step
    return False


def _check(path: Path) -> tuple[int, bytes]:
    """The step and the payload of a file. Raises TornCheckpoint."""
    content = path.read_bytes()
    if len(content) < _HEADER.size:
        raise TornCheckpoint(f"{path.name} has {len(content)} bytes: it ends within its header of {_HEADER.size}.")
    magic, step, length, digest = _HEADER.unpack_from(content)
    data = content[_HEADER.size :]
    if magic != _MAGIC:
        raise TornCheckpoint(f"{path.name} does not begin as a checkpoint: expected {_MAGIC!r}, got {magic!r}.")
    if len(data) != length:
        raise TornCheckpoint(f"{path.name}: expected {length:,} bytes after the header, got {len(data):,}.")
    if _digest(step, data) != digest:
        raise TornCheckpoint(f"{path.name} has its full length, but not the checksum that it was written with.")
    return step, data


def _digest(step: int, data: bytes) -> bytes:
    return hashlib.sha256(struct.pack("<q", step) + data).digest()


def _sync_folder(folder: Path) -> None:
    """Have the new name on the disk, too."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# ── all ranks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def last_common_step(comm: Communicator, steps: Collection[int]) -> int | None:
    """The largest step that every rank has; None if there is none. One all-reduce per step that somebody lacks.

    Args:
        steps: those that this rank has, each at least 0.
    """
    step = _lowest(comm, max(steps, default=_NONE))
    while step != _NONE:
        mine = max((other for other in steps if other <= step), default=_NONE)
        lowest = _lowest(comm, mine)
        if lowest == step:
            return step
        step = lowest
    return None


def _lowest(comm: Communicator, number: int) -> int:
    tensor = torch.tensor([number])
    all_reduce(comm, tensor, ReduceOp.MIN)
    return int(tensor)
