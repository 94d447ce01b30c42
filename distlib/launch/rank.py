"""A process that torchrun or srun has started: it finds the head, becomes a rank, and runs what the head says.

torchrun, srun ──► rank 0 ──forks──► head
                   rank 1, 2, …  ──────►  join, run the function, exit with the status that the head names
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from typing import Any

import psutil
import torch

from distlib.launch import head_connection
from distlib.launch.environment import LaunchError, Placement
from distlib.launch.handshake import ProvenConnection
from distlib.launch.head_connection import Hello, Welcome
from distlib.launch.link import RankConnection
from distlib.launch.notice import SIGNALS, give_notice, of_this_process
from distlib.launch.rendezvous import HeadWord, Rendezvous
from distlib.worlds import call_site
from distlib.worlds.diagnosis import Failure
from distlib.worlds.not_compiled import leave_to_python
from distlib.worlds.real.cards import identity_of, take_card
from distlib.worlds.real.endpoint import Endpoint
from distlib.worlds.real.notebook_state import News
from distlib.worlds.real.output_relay import mark_lines
from distlib.worlds.real.rank_process import STOP_SIGNAL, RankProcess
from distlib.worlds.real.transport import GlooTransport, NcclTransport, OpenStore, Transport

_STARTS_RANKS = True  # see worlds.call_site

_CONNECT_PATIENCE = 2.0  # seconds for one address


def be_rank(
    placement: Placement,
    rendezvous: Rendezvous,
    patience: float,
    hopeless: Callable[[], bool] = lambda: False,
    *,
    card: int | None = None,
    is_script: bool = False,
) -> int:
    """Join the head, and do what it says until it says goodbye. Returns the exit status.

    Args:
        patience: seconds to look for the head.
        hopeless: asked meanwhile; true when the head is known to have ended.
        card: the number of the GPU that it would take; None if it needs none.
        is_script: whether the process is a script that was running before, and keeps its output, its threads, its
            random numbers and its folder.

    Raises:
        LaunchError: there is no head to be found within `patience` seconds.
    """
    try:
        hello = _hello(placement, card)  # before it joins: to start CUDA takes seconds, and the head takes one by one
        connection, head_node = _join(placement, hello, rendezvous, patience, hopeless)
        welcome = head_connection.read_form(Welcome, connection.recv_bytes())
    except (EOFError, OSError):
        return 1  # the head has said why
    link = RankConnection(connection, placement.rank, f"{placement}: lost the head, on node {head_node}.")
    with contextlib.nullcontext() if is_script else _output(placement, link, welcome):
        return _serve(placement, link, rendezvous, welcome, card, is_script)


def _serve(
    placement: Placement,
    link: RankConnection,
    rendezvous: Rendezvous,
    welcome: Welcome,
    card: int | None,
    is_script: bool,
) -> int:
    if not is_script:
        torch.set_num_threads(max(1, _cores() // placement.local_size))
    leave_to_python()
    if welcome.backend == "nccl":
        link.listen()  # pairs of ranks meet without a limit of time: who is left alone has to hear that it is over
    endpoint = _make_endpoint(placement, link, rendezvous, welcome, card)
    link.shield = endpoint.shield
    process = (ScriptRank if is_script else LaunchedRank)(placement, endpoint, link)
    if welcome.backend != "nccl":
        link.listen()
    try:
        process.serve()
    except _Goodbye as goodbye:
        link.close()
        return goodbye.status
    return 1


# ── joining ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _join(
    placement: Placement, hello: Hello, rendezvous: Rendezvous, patience: float, hopeless: Callable[[], bool]
) -> tuple[ProvenConnection, str]:
    """The connection to the head, and the node that it is on. Raises EOFError if the head has ended."""
    give_up, tried = time.monotonic() + patience, "no word of it"
    while time.monotonic() < give_up:
        head = rendezvous.look()
        if head is not None:
            connection = _call(head, hello)
            if connection is not None:
                return connection, head.node
            tried = f"nobody who knows the secret at {', '.join(head.hosts)}, port {head.port}"
        if hopeless():
            raise EOFError
        time.sleep(0.03)  # the word may be that of an earlier start
    raise LaunchError(f"{placement} has not found rank 0 within {patience:g} s: {tried}. {rendezvous.advice}")


def _call(head: HeadWord, hello: Hello) -> ProvenConnection | None:
    """Connect to the head at one of its addresses; None if it can be reached at none of them."""
    for host in head.hosts:
        with contextlib.suppress(OSError, EOFError, AuthenticationError):
            connection = head_connection.call(host, head.port, bytes.fromhex(head.key), _CONNECT_PATIENCE)
            connection.send_bytes(head_connection.write_form(hello))
            return connection
    return None


def _hello(placement: Placement, card: int | None) -> Hello:
    identity = None if card is None else identity_of(card)
    return Hello(placement.rank, placement.world_size, placement.node, placement.node_name, os.getpid(), identity)


def _make_endpoint(
    placement: Placement, link: RankConnection, rendezvous: Rendezvous, welcome: Welcome, card: int | None
) -> Endpoint:
    open_store: OpenStore = lambda name, size: rendezvous.open_store(f"{welcome.token}-{name}", size)  # noqa: E731
    rank, world_size, device = placement.rank, placement.world_size, torch.device("cpu")
    if welcome.backend == "nccl":
        assert card is not None, "the head has seen that each rank has a GPU"
        device = take_card(card, rank, welcome.cards_are_shared)
    transports: dict[str, Transport] = {}
    if world_size > 1:
        interface = _interface_of(welcome.host)
        os.environ["GLOO_SOCKET_IFNAME"] = interface  # for torch's own process groups
        if placement.nodes > 1 and interface:
            os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")
        transports["cpu"] = GlooTransport(open_store, rank, world_size, welcome.host)
        if welcome.backend == "nccl":
            transports["cuda"] = NcclTransport(open_store, rank, world_size, device)
    return Endpoint(rank, link.mailbox, link, "", open_store, transports, device)


def _interface_of(host: str) -> str:
    """The name of the network interface that has this address."""
    for name, addresses in psutil.net_if_addrs().items():
        if any(address.family == socket.AF_INET and address.address == host for address in addresses):
            return name
    return ""


def _cores() -> int:
    """How many this process may use: Slurm gives a task its share."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Goodbye(Exception):
    """The head has said that it is all over."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class LaunchedRank(RankProcess):
    """The loop of one rank, which what has started it may also end, by SIGTERM or SIGINT, or warn (see notice)."""

    def __init__(self, placement: Placement, endpoint: Endpoint, link: RankConnection) -> None:
        super().__init__(placement.rank, placement.world_size, endpoint, link)
        self._ended_by: str | None = None
        self._link = link
        for number in (*SIGNALS, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: object) -> None:
        notice = of_this_process
        if number == STOP_SIGNAL and self._link.stopping:
            self._endpoint.stop()
        elif number == signal.SIGINT or (number == signal.SIGTERM and (notice.given or not notice.wanted)):
            self._ended_by = signal.Signals(number).name
            self._endpoint.stop()
        else:
            give_notice()

    def _call(self, blob: bytes, news: News | None) -> tuple[Any, Any]:
        if self._ended_by is not None:  # the signal came before there was a function to leave
            self._endpoint.stop()
        return super()._call(blob, news)

    def _report(self, *values: Any) -> None:
        """As a `RankProcess`; but a rank that was stopped, and not by the head, has failed."""
        if values[0] == "done" and values[2] == "stopped" and self._ended_by is not None:
            stopped: Failure = values[3]
            text = f"{self._ended_by} from what has started it"
            values = (*values[:2], "failure", Failure(stopped.rank, "Ended", text, stopped.site, stopped.stack))
        if values[0] == "done":
            self._ended_by = None  # this run has ended; there may be another one
        super()._report(*values)

    def _on_exit(self, status: int) -> tuple[Any, ...]:
        raise _Goodbye(status)


class ScriptRank(LaunchedRank):
    """A rank that was a script before: it looks as it is."""

    def _prepare(self, settings: dict[str, Any], news: News | None) -> None:
        call_site.forget()


# ── output ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def _output(placement: Placement, link: RankConnection, welcome: Welcome) -> Iterator[None]:
    """In this block, what Python prints goes to the head, or, each line with its rank in front, where it went before.

    In both cases each line does so at once.
    """
    before = sys.stdout, sys.stderr
    for stream in before:
        stream.flush()
    mark = f"[rank {placement.rank}] "
    new = [SentText(number, link) if welcome.shows else MarkedLines(number, mark) for number in (1, 2)]
    sys.stdout, sys.stderr = texts = [
        io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True) for raw in new
    ]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        for text in texts:
            text.close()


class SentText(io.RawIOBase):
    """A stream whose text the head shows.

    Args:
        number: 1 for stdout, 2 for stderr.
    """

    def __init__(self, number: int, link: RankConnection) -> None:
        self._number, self._link = number, link

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, data: Any) -> int:
        self._link.send(head_connection.PRINT, str(self._number).encode() + bytes(data))
        return len(data)


class MarkedLines(io.RawIOBase):
    """A stream that puts a mark in front of each line, and writes whole lines only.

    Args:
        fd: where to.
        mark: such as "[rank 0] ".
    """

    def __init__(self, fd: int, mark: str) -> None:
        self._fd, self._mark, self._rest = fd, mark, b""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, data: Any) -> int:
        text = self._rest + bytes(data)
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        self._rest = text[end:]
        self._put(text[:end])
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._put(self._rest + b"\n" if self._rest else b"")
        super().close()

    def _put(self, lines: bytes) -> None:
        marked = mark_lines(lines.decode("utf-8", "replace"), self._mark).encode()
        while marked:
            marked = marked[os.write(self._fd, marked) :]
