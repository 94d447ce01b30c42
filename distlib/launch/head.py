"""The head: where ranks of several machines meet, and from where their run is watched.

    rank 0 (n1) ──┐
    rank 1 (n1) ──┤                    ┌ control messages, to the rank that they are for
    rank 2 (n2) ──┼──► head: by thread ┼ statuses, onto the status board
    rank 3 (n2) ──┘                    └ reports, to the supervisor, the same as in a World

Under `distlib launch` it is a process next to rank 0, and not its thread: it must be able to report that rank 0 has
died. For a SlurmWorld it is the notebook's process. The system chooses the port that it listens at; when all ranks have
come, that is closed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any

import psutil

from distlib.launch import head_connection
from distlib.launch.environment import LaunchError, Placement
from distlib.launch.handshake import ProvenConnection
from distlib.launch.head_connection import (
    COMMAND,
    DEATH,
    GOODBYE,
    KILL,
    LOST,
    MESSAGE,
    POST,
    PRINT,
    PUBLISH,
    RANK,
    REPORT,
    STATUS,
    STOP,
    Hello,
    Welcome,
)
from distlib.launch.rendezvous import HeadWord, Rendezvous
from distlib.launch.statuses import read_status
from distlib.worlds.diagnosis import PeerLost, RankError, name_ranks
from distlib.worlds.real.cards import MOST_RANKS
from distlib.worlds.real.status_board import StatusBoard

_LOOPBACK = "127.0.0.1"
_FAREWELL = 5.0  # seconds for ranks to end when they have been asked to


class Head:
    """The ranks of one start, as a supervisor needs them (see worlds.real.supervisor.Ranks). A context manager.

    Args:
        placement: of rank 0, or of another process on this machine.
        rendezvous: where the ranks learn how to reach it.
        shows: whether the supervisor is to show what ranks print; else they do so themselves.
        backend: "gloo" or "nccl"; None for NCCL if there are 2 to 16 ranks, each with a GPU of its own, else gloo.

    Attributes:
        hellos: what each rank has said of itself, by rank.
        outputs: what ranks print: rank, "stdout" or "stderr", file descriptor to read.
    """

    def __init__(
        self, placement: Placement, rendezvous: Rendezvous, shows: bool = False, backend: str | None = "gloo"
    ) -> None:
        self.world_size = placement.world_size
        self.outputs: list[tuple[int, str, int]] = []
        self.hellos: dict[int, Hello] = {}
        self.commands: list[Connection] = []
        self._placement, self._rendezvous, self._shows, self._backend = placement, rendezvous, shows, backend
        self._printed: dict[tuple[int, bytes], int] = {}  # by rank and stream: the pipe to write to
        self._token = secrets.token_hex(8)
        self._ranks: dict[int, ProvenConnection] = {}
        self._locks = [threading.Lock() for _ in range(self.world_size)]
        self._threads: list[threading.Thread] = []
        self._folder = tempfile.TemporaryDirectory(prefix="distlib-")
        self.directory = self._folder.name
        self.board = StatusBoard(os.path.join(self.directory, "board"), self.world_size, create=True)

    def __enter__(self) -> Head:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._ranks.values():
            head_connection.hang_up(connection)
        self._rendezvous.clear(self._token)
        self._folder.cleanup()

    # ── meeting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def gather(self, patience: float, wanted: Callable[[], bool] = lambda: True) -> None:
        """Wait until all ranks have come, and welcome them.

        Args:
            patience: seconds.
            wanted: asked now and then; false when nobody needs the ranks any more.

        Raises:
            LaunchError: some have not come, have gone again, or are not what they should be.
        """
        one_machine = self._placement.one_machine
        give_up = time.monotonic() + patience
        with socket.create_server((_LOOPBACK if one_machine else "", 0)) as listener:
            self._publish(listener.getsockname()[1], one_machine)
            while len(self.hellos) < self.world_size:
                if time.monotonic() >= give_up or not wanted():
                    raise LaunchError(self._who_is_missing(patience))
                self._admit(listener)
        backend, shared = self._choose_backend()
        for rank, connection in self._ranks.items():
            welcome = Welcome(self._host_of(rank), self._token, self._shows, backend, shared)
            connection.send_bytes(head_connection.write_form(welcome))
        self._start_threads()

    def _choose_backend(self) -> tuple[str, bool]:
        """The backend, and whether ranks share GPUs. Raises LaunchError: NCCL was asked for, and can't be had."""
        cards = [self.hellos[rank].card for rank in range(self.world_size)]
        shared = len(set(cards)) < self.world_size
        if self._backend is None:
            own = None not in cards and not shared
            return "nccl" if own and 1 < self.world_size <= MOST_RANKS else "gloo", False
        if self._backend == "nccl" and None in cards:
            without = self.describe(cards.index(None))
            raise LaunchError(f"{without} has no GPU that NCCL can use: leave out --backend, or say --backend gloo.")
        if self._backend == "nccl" and shared and self._placement.nodes > 1:
            raise LaunchError(
                "--backend nccl: some ranks have the same GPU, which works on a single node only: start as many ranks "
                "on each node as it has GPUs, or say --backend gloo."
            )
        return self._backend, shared and self._backend == "nccl"

    def _publish(self, port: int, one_machine: bool) -> None:
        hosts = [_LOOPBACK] if one_machine else [*own_addresses(), _LOOPBACK]
        self._rendezvous.publish(HeadWord(hosts, port, self._rendezvous.key, self._placement.node_name))

    def _admit(self, listener: socket.socket) -> None:
        """Let in one that knocks, if it knows the secret; notice one that has gone."""
        ends: list[Any] = [listener, *self._ranks.values()]
        readable, _, _ = select.select(ends, [], [], 0.2)
        for rank, connection in self._ranks.items():
            if connection in readable:
                raise LaunchError(f"{self.describe(rank)} has gone before all had come.")
        if listener in readable:
            peer, _ = listener.accept()
            with contextlib.suppress(OSError, EOFError, AuthenticationError):
                connection = head_connection.answer(peer, bytes.fromhex(self._rendezvous.key))
                self._enter(head_connection.read_form(Hello, connection.recv_bytes()), connection)

    def _enter(self, hello: Hello, connection: ProvenConnection) -> None:
        if hello.world_size != self.world_size:
            raise LaunchError(
                f"rank {hello.rank} on node {hello.node_name} expects {hello.world_size} ranks, "
                f"the head on node {self._placement.node_name} expects {self.world_size}."
            )
        if hello.rank in self.hellos:
            raise LaunchError(
                f"{self.describe(hello.rank)} has come, and so has another rank {hello.rank}, "
                f"on node {hello.node_name}: was its number set by hand, or is it of another start?"
            )
        self.hellos[hello.rank], self._ranks[hello.rank] = hello, connection

    def _who_is_missing(self, patience: float) -> str:
        missing = [rank for rank in range(self.world_size) if rank not in self.hellos]
        have = "has" if len(missing) == 1 else "have"
        here = "; here: " + ", ".join(self.describe(rank) for rank in sorted(self.hellos)) if self.hellos else ""
        return (
            f"{name_ranks(missing)} {have} not come to node {self._placement.node_name} within {patience:g} s{here}. "
            "Were all nodes started, and can they reach that one?"
        )

    def _host_of(self, rank: int) -> str:
        """The address of a rank's machine, for the others: as the head sees it, or its own as the others see it."""
        seen = {other: head_connection.addresses_of(connection) for other, connection in self._ranks.items()}
        node = self.hellos[rank].node
        if node == self._placement.node:
            distant = [own for other, (own, _) in seen.items() if self.hellos[other].node != node]
            return distant[0] if distant else seen[rank][1]
        return seen[rank][1]

    def describe(self, rank: int) -> str:
        """ "rank 2 on node n2"."""
        return f"rank {rank} on node {self.hellos[rank].node_name}"

    def name_nodes(self, error: RankError) -> None:
        """Add to an error on which nodes its ranks ran, in a note for each."""
        for node in dict.fromkeys(self.hellos[rank].node_name for rank in error.ranks):
            there = [rank for rank, hello in self.hellos.items() if hello.node_name == node]
            ranks = sorted(set(there).intersection(error.ranks))
            all_lost = isinstance(error, PeerLost) and len(there) == len(ranks) > 1
            doubt = ", and no other rank: is that node still up?" if all_lost else "."
            error.add_note(f"{name_ranks(ranks).capitalize()} ran on node {node}{doubt}")

    # ── passing on ───────────────────────────────────────────────────────────────────────────────────────────────

    def _start_threads(self) -> None:
        for rank in range(self.world_size):
            for stream, name in ((b"1", "stdout"), (b"2", "stderr")) if self._shows else ():
                end, self._printed[rank, stream] = os.pipe()
                self.outputs.append((rank, name, end))
            ours, theirs = socket.socketpair()
            self.commands.append(Connection(ours.detach()))
            arguments = (rank, self._ranks[rank], Connection(theirs.detach()))
            self._threads.append(threading.Thread(target=self._pass_on, args=arguments, daemon=True))
        for thread in self._threads:
            thread.start()

    def _pass_on(self, rank: int, connection: ProvenConnection, supervisor: Connection) -> None:
        """All that one rank says, in its order, until it hangs up."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                frame = connection.recv_bytes()
                kind, body = frame[:1], frame[1:]
                if kind == POST:
                    (dst,) = RANK.unpack_from(body)
                    self.board.count_posted(rank, dst)
                    self._say(dst, MESSAGE, body[RANK.size :])
                elif kind == PUBLISH:
                    self.board.publish(rank, *read_status(body))
                elif kind == PRINT:
                    os.write(self._printed[rank, body[:1]], body[1:])
                elif kind == REPORT:
                    supervisor.send_bytes(body)
        supervisor.close()
        for stream in (b"1", b"2") if self._shows else ():
            os.close(self._printed[rank, stream])

    def _say(self, rank: int, kind: bytes, body: bytes = b"") -> None:
        """Say something to a rank; nothing if it is gone: that is noticed by its own thread."""
        with self._locks[rank], contextlib.suppress(OSError):
            self._ranks[rank].send_bytes(kind + body)

    # ── what a supervisor asks of ranks ──────────────────────────────────────────────────────────────────────────

    def send(self, rank: int, *command: Any) -> None:
        """Give a rank something to do; see rank_process."""
        self._say(rank, COMMAND, pickle.dumps(command))

    def receive(self, rank: int) -> tuple[Any, ...]:
        """The next report of a rank. Raises EOFError or OSError if it has ended."""
        return pickle.loads(self.commands[rank].recv_bytes())

    def stop(self, ranks: Iterable[int]) -> None:
        """Ask ranks to leave the run."""
        for rank in ranks:
            self._say(rank, STOP)

    def kill(self, ranks: Iterable[int] | None = None) -> None:
        """End ranks, whatever they are doing. None: all of them."""
        for rank in list(self._ranks) if ranks is None else ranks:
            self._say(rank, KILL)

    def announce_death(self, dead: int, rank: int, run: int) -> bool:
        """Tell a rank that another one has died, in the name of that one."""
        self._say(rank, LOST, DEATH.pack(run, dead))
        return True

    def native_stack(self, rank: int) -> str:
        """Empty: the rank may be on another machine, where nobody can ask for its stack."""
        return ""

    def last_stack(self, rank: int) -> str:
        """Empty, likewise; a rank that crashes leaves its stack in its own log."""
        return ""

    def exit_status(self, rank: int, patience: float = 0.0) -> int | None:
        """Not known here: what has started the rank gets it."""
        return None

    def dismiss(self, status: int) -> None:
        """The run is over: have every rank exit with this status, and wait for that; end those that don't."""
        for rank in range(self.world_size):
            self._say(rank, GOODBYE, STATUS.pack(status))
        self._wait_for_ends()
        self.kill()
        self._wait_for_ends()

    def _wait_for_ends(self) -> None:
        give_up = time.monotonic() + _FAREWELL
        for thread in self._threads:
            thread.join(max(0.0, give_up - time.monotonic()))


def own_addresses() -> Sequence[str]:
    """The addresses of this machine under which another one may reach it: IPv4, of interfaces that are up."""
    up = {name for name, stats in psutil.net_if_stats().items() if stats.isup}
    found = [address for name, addresses in psutil.net_if_addrs().items() if name in up for address in addresses]
    hosts = [address.address for address in found if address.family == socket.AF_INET]
    return [host for host in hosts if not host.startswith("127.")]
