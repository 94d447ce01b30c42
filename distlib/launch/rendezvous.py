"""Where processes of one start leave word for each other, so that they can meet.

    FileRendezvous     a file in a private directory that all of them see, such as the home of a user on a cluster.
                       What srun starts meets here, and all that run on one machine
    StoreRendezvous    the store whose address torchrun gives all its processes (MASTER_ADDR, MASTER_PORT), where they
                       run on several machines. Everybody who reaches that store can read and write it

Word is left once, by the head (see head): under which addresses it can be reached. The secret that it asks for stands
in the private file, too. In a store it never stands: there each process has it from a file of its own (see
secret_file), and a word counts only with a proof that it comes from one who has that.
"""

from __future__ import annotations

import contextlib
import datetime
import hmac
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch.distributed

from distlib.launch.environment import LaunchError, Placement

_c10d: Any = torch.distributed
_HEAD = "head"
_PROOF = 32  # bytes in front of a word in a store


@dataclass(frozen=True)
class HeadWord:
    """Where the head is.

    Attributes:
        hosts, port: the addresses at which it can be reached.
        key: the secret that it asks for.
        node: the name of its node.
    """

    hosts: list[str]
    port: int
    key: str
    node: str


class Rendezvous:
    """Where processes that know nothing of each other leave a word, and find a store of torch.

    Attributes:
        key: the secret that a head which is found here is to ask for.
        advice: what to look at when it is not found.
    """

    key: str
    advice: str

    def publish(self, word: HeadWord) -> None:
        """Leave a word for whoever looks later."""
        raise NotImplementedError

    def look(self) -> HeadWord | None:
        """The word that was left; None if there is none yet. It may be of an earlier start."""
        raise NotImplementedError

    def open_store(self, name: str, world_size: int) -> Any:
        """A store of torch that all processes find under this name."""
        raise NotImplementedError

    def clear(self, stores: str) -> None:
        """Leave nothing of one's own word behind, and no store whose name begins like that. For the head."""


class FileRendezvous(Rendezvous):
    """Word in a file.

    Args:
        directory: on a file system that all of them share. Made if it is not there, for this user only.
        run: a name that no other start has at the same time.

    Raises:
        LaunchError: the directory can't be made or used, or other users can write to it.
    """

    advice = "Was rank 0 started, and do all of them see the same place to meet?"

    def __init__(self, directory: Path, run: str) -> None:
        _make_private(directory)
        self._directory, self._run = directory, run
        self.key = secrets.token_hex(32)

    def publish(self, word: HeadWord) -> None:
        new = self._path(f"{_HEAD}.{os.getpid()}")
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asdict(word), file)
        os.replace(new, self._path(_HEAD))  # at once: nobody reads half of it

    def look(self) -> HeadWord | None:
        with contextlib.suppress(OSError):
            os.listdir(self._directory)  # on NFS: see what other nodes have made
            return _read(self._path(_HEAD).read_bytes())
        return None

    def open_store(self, name: str, world_size: int) -> Any:
        return _c10d.FileStore(str(self._path(name)), -1)

    def clear(self, stores: str) -> None:
        word = self.look()
        if word is not None and word.key == self.key:  # else torchrun has started all of it again in the meantime
            self._path(_HEAD).unlink(missing_ok=True)
        for path in self._directory.glob(f"{self._run}.{stores}*"):
            path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._directory / f"{self._run}.{name}"


class StoreRendezvous(Rendezvous):
    """Word in a store of torch.

    Args:
        placement: of this process, which says where the store is.
        secret: of this user, see secret_file.
        advice: see `Rendezvous`.
        opens: whether this process is to open it.
        patience: seconds to wait for it.

    Raises:
        LaunchError: nobody answers there.
    """

    def __init__(self, placement: Placement, secret: bytes, advice: str, opens: bool, patience: float) -> None:
        assert placement.store is not None
        self.key, self.advice = secret.hex(), advice
        host, port = placement.store
        try:
            store = _c10d.TCPStore(
                host, port, is_master=opens, wait_for_workers=False, timeout=datetime.timedelta(seconds=patience)
            )
        except RuntimeError as error:
            raise LaunchError(_why_no_store(placement, opens, patience, error)) from None
        self._store = _c10d.PrefixStore(f"distlib-{placement.run}", store)

    def publish(self, word: HeadWord) -> None:
        written = json.dumps(asdict(replace(word, key=""))).encode()
        self._store.set(_HEAD, self._proof(written) + written)

    def look(self) -> HeadWord | None:
        left = self._store.get(_HEAD) if self._store.check([_HEAD]) else b""
        proof, written = left[:_PROOF], left[_PROOF:]
        if not hmac.compare_digest(proof, self._proof(written)):
            return None  # anybody can write into the store
        word = _read(written)
        return word and replace(word, key=self.key)

    def _proof(self, written: bytes) -> bytes:
        return hmac.digest(bytes.fromhex(self.key), b"word" + written, "sha256")

    def open_store(self, name: str, world_size: int) -> Any:
        return _c10d.PrefixStore(name, self._store)


def _read(written: bytes) -> HeadWord | None:
    """A word; None if it is of an earlier version of this program."""
    try:
        return HeadWord(**json.loads(written))
    except (ValueError, TypeError):
        return None


def default_directory() -> Path:
    """Where processes of this user meet: in the home, which the nodes of a cluster share."""
    return Path.home() / ".distlib" / "rendezvous"


def _make_private(directory: Path) -> None:
    advice = "Name a directory that all nodes share, and only you can write to: --rendezvous DIR."
    try:
        for folder in (directory.parent, directory):  # else the umask would decide who can replace the directory
            if not folder.exists():
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
