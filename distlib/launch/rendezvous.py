"""Where processes that were started on several machines leave word for each other, so that they can meet.

    FileRendezvous     a file in a private directory that all nodes see, such as the home of a user on a cluster.
                       No address, no port: what srun starts meets here
    StoreRendezvous    the store whose address torchrun gives all its processes (MASTER_ADDR, MASTER_PORT)

Word is left once, by the head (see head): under which addresses it can be reached, and with which secret.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import stat
from pathlib import Path
from typing import Any

import torch.distributed

from distlib.launch.environment import LaunchError, Placement

_c10d: Any = torch.distributed
_HEAD = "head"


class Rendezvous:
    """Where processes that know nothing of each other leave a word, and find a store of torch."""

    def publish(self, word: bytes) -> None:
        """Leave a word for whoever looks later, such as where the head is."""
        raise NotImplementedError

    def look(self) -> bytes | None:
        """The word that was left; None if there is none yet. It may be of an earlier start."""
        raise NotImplementedError

    def open_store(self, name: str, world_size: int) -> Any:
        """A store of torch that all processes find under this name."""
        raise NotImplementedError

    def clear(self) -> None:
        """Leave nothing behind. For the last one."""


class FileRendezvous(Rendezvous):
    """Word in a file.

    Args:
        directory: on a file system that all nodes share. Made if it is not there, for this user only.
        run: a name that no other start has at the same time.

    Raises:
        LaunchError: the directory can't be made or used, or other users can write to it.
    """

    def __init__(self, directory: Path, run: str) -> None:
        _make_private(directory)
        self._directory, self._run = directory, run

    def publish(self, word: bytes) -> None:
        new = self._path(f"{_HEAD}.{os.getpid()}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(word)
        os.replace(new, self._path(_HEAD))  # at once: nobody reads half of it

    def look(self) -> bytes | None:
        with contextlib.suppress(OSError):
            os.listdir(self._directory)  # on NFS: see what other nodes have made
            return self._path(_HEAD).read_bytes()
        return None

    def open_store(self, name: str, world_size: int) -> Any:
        return _c10d.FileStore(str(self._path(name)), -1)

    def clear(self) -> None:
        for path in self._directory.glob(f"{self._run}.*"):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{self._run}.{name}"


class StoreRendezvous(Rendezvous):
    """Word in a store of torch.

    Args:
        placement: of this process, which says where the store is.
        opens: whether this process is to open it.
        patience: seconds to wait for it.

    Raises:
        LaunchError: nobody answers there.
    """

    def __init__(self, placement: Placement, opens: bool, patience: float) -> None:
        assert placement.store is not None
        host, port = placement.store
        try:
            store = _c10d.TCPStore(
                host, port, is_master=opens, wait_for_workers=False, timeout=datetime.timedelta(seconds=patience)
            )
        except RuntimeError as error:
            raise LaunchError(_why_no_store(placement, opens, patience, error)) from None
        self._store = _c10d.PrefixStore(f"distlib-{placement.run}", store)

    def publish(self, word: bytes) -> None:
        self._store.set(_HEAD, word)

    def look(self) -> bytes | None:
        return self._store.get(_HEAD) if self._store.check([_HEAD]) else None

    def open_store(self, name: str, world_size: int) -> Any:
        return _c10d.PrefixStore(name, self._store)


def default_directory() -> Path:
    """Where processes of this user meet: in the home, which the nodes of a cluster share."""
    return Path.home() / ".distlib" / "rendezvous"


def _make_private(directory: Path) -> None:
    advice = "Name a directory that all nodes share, and only you can write to: --rendezvous DIR."
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise LaunchError(f"can't use {directory} to meet in: {error.strerror}. {advice}") from None
    if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LaunchError(f"others can write to {directory}, so processes can't meet there. {advice}")


def _why_no_store(placement: Placement, opens: bool, patience: float, error: Exception) -> str:
    assert placement.store is not None
    host, port = placement.store
    where = f"MASTER_ADDR={host} MASTER_PORT={port}"
    if opens:
        return f"{placement} can't open a store at {where}: {error}. Is that another machine, or the port taken?"
    who = "torchrun" if placement.agent_store else "rank 0"
    return (
        f"{placement} finds no store at {where} within {patience:g} s. {who} opens it: does it run, is that its "
        f"machine, and do the others reach that? torch says: {error}"
    )
