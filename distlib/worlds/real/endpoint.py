"""One rank's end of all its conversations: announcing, matching, answering, waiting.

Sender and receiver meet by control messages (see mailbox) before a byte of a large tensor moves. Each announcement is
a header with source, tag, dtype, shape, sequence number and line of code, so a mismatch is an error that names both
sides. Without it gloo would reinterpret a wrong dtype, keep the old tail of a buffer that is too long, and abort the
process on one that is too short.

    small tensors (up to INLINE_BYTES),         large tensors without shared memory,
    and through shared memory or a file those   and all tensors on a GPU
    of any size: the place is sent as payload

    sender            receiver                  sender               receiver
      │  OFFER + payload ►│                       │ OFFER ────────────► │
      │ ◄──────────── TAKE│                       │ ◄──────────── TAKE  │  its gloo/NCCL receive is posted
      ▼ send returns      ▼ recv returns          │ SENT ─────────────► │  so is the send: now it cannot get stuck
                                                  ╞═══ gloo or NCCL ═══►│
                                                  ▼ send returns        ▼ recv returns

In a paced world (see pacing) the receiver also says when the message is over, and both sides wait until then.

A rank only ever blocks in `Mailbox.next`, where it first writes what it waits for onto the status board; the wait for
gloo or NCCL is short, since both sides have promised. While it blocks, a rank answers whatever arrives, so an `irecv`
that was posted earlier is served while the rank waits for something else.

In a world that survives deaths, the last message from a dead rank is LOST. What waits for that rank ends with a
`PeerLost` (see worlds.deaths), and what it had announced is dropped, unless it was eager and all of it is here.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.communicator import Work
from distlib.network import Cluster
from distlib.trace import CallSite
from distlib.worlds.deaths import lost_in_meeting, lost_in_message
from distlib.worlds.diagnosis import MessageMismatch, PeerLost
from distlib.worlds.message_check import End, different_calls, misfit
from distlib.worlds.real.background import Background, StartedCall
from distlib.worlds.real.journal import Journal
from distlib.worlds.real.mailbox import INLINE_BYTES, Mailbox
from distlib.worlds.real.pacing import PacedCall, Pacing
from distlib.worlds.real.shared_memory import Address, fill_from, memory_address
from distlib.worlds.real.status_board import BLOCKED, FINISHED, IDLE, RUNNING, Board
from distlib.worlds.real.tensor_files import TensorFiles, read_tensor
from distlib.worlds.real.transport import OpenStore, Transport, Wait
from distlib.worlds.tensor_bytes import dense, describe_tensor, dtype_name_of, from_bytes, to_bytes

_THREAD_PATIENCE = 1.0  # seconds for threads to leave a run that is over

# What a control message says. WAKE is to oneself; LOST comes from the supervisor, in the name of a rank that has died.
OFFER, TAKE, SENT, REFUSE, ARRIVED, RELEASED, WAKE, LOST = range(8)

# A message in a trace before its two halves are put together (see world): what its sender and its receiver know.
# sequence, destination, tag, bytes, dtype, shape, start, round, site
SentRow = tuple[int, int, int, int, str, tuple[int, ...], float, int, CallSite]
ReceivedRow = tuple[int, int, float, float, CallSite]  # source, sequence, taken, end, site


@dataclass(eq=False, slots=True)
class Offer:
    """The header of a message that another rank has announced."""

    src: int
    sequence: int
    group: tuple[int, ...]
    tag: int
    dtype: str
    shape: tuple[int, ...]
    device: str
    nbytes: int
    round: int
    place: str
    call: str | None
    posted: float
    left: float | None  # of an eager message on a paced network: when it has reached the receiver's port
    payload: bytes | Address | str | None  # the tensor itself, where it lies in the sender's memory, or in which file

    def describe(self) -> str:
        return describe_tensor(self.shape, self.dtype)

    def is_complete(self) -> bool:
        """Whether it is eager and all of it is here, so that its sender may die."""
        return self.left is not None and isinstance(self.payload, bytes | str)


class Stopped(BaseException):
    """The run is over for this rank: another one failed, the time was up, or the kernel was interrupted.

    Raised in the middle of whatever the rank was doing; not an Exception, so that `except Exception` lets it through.
    """


class Endpoint:
    """One rank's end of all its conversations: what it offers, what it waits for, what it has been offered.

    A process has one, shared by all its communicators. It is used by one thread at a time: what the rank has started in
    the background goes first, and calls of its own thread wait for that.
    """

    def __init__(
        self,
        rank: int,
        mailbox: Mailbox,
        board: Board,
        directory: str,
        open_store: OpenStore,
        transports: dict[str, Transport],
        device: torch.device,
        network: Cluster | None = None,
        shares_memory: bool = False,
        files: TensorFiles | None = None,
    ) -> None:
        self.rank = rank
        self.directory = directory
        self.open_store = open_store
        self.device = device
        self.record = True
        self._mailbox = mailbox
        self._board = board
        self._transports = transports
        self.shares_memory, self._files = shares_memory, files
        self._run = 0
        self._closed = True
        self._sequence = 0
        self._state = IDLE
        self._start = 0.0
        self._pacing = Pacing(network, directory, rank, self.now) if network is not None else None
        self._shielded = self._stop_pending = False
        self._background = Background(self._prepare_thread)
        self._abandoned = False
        self._journal: Journal | None = None
        self._early: list[tuple[Any, ...]] = []
        self._waiting_threads: set[int] = set()  # those that are in the middle of a wait
        self._handled: list[int] = []
        self._last_call: tuple[int, str, str] | None = None  # a LastCall, in the form that the status board can take
        self.kept: list[object] = []  # what has to outlive the function that the rank runs
        self._forget()

    # ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, run: int, start: float, record: bool, survives: bool = False) -> None:
        """Start run number `run`, whose clock began at `start`; nothing of an earlier one is left.

        Args:
            record: whether to note the messages.
            survives: whether the run goes on without ranks that die.
        """
        self._forget()
        self._journal = Journal(self.directory, self.rank) if survives and record else None
        self._run, self._start, self.record, self._state, self._closed = run, start, record, RUNNING, False
        self._abandoned = False
        if self._pacing is not None:
            self._pacing.begin(run)
        self._publish([])
        early, self._early = self._early, []
        for message in early:
            self._take_in(message)

    def finish(self) -> None:
        """The rank's function has returned: from now on only answer, and keep going what was started.

        Raises:
            MessageMismatch: a message was started that did not fit, and nobody waited for it.
            whatever else a started call raised.
        """
        self._background.wait_for_all()
        self.leave()
        self.serve()
        for work in self._failed:
            if not work.finished:
                work.finish()

    def note_call(self, call: str, site: CallSite) -> None:
        """Note that a collective call begins."""
        number = self._last_call[0] if self._last_call is not None else 0
        self._last_call = (number + 1, call, site.place)

    def leave(self) -> None:
        """From here on the rank no longer runs the student's function, and `stop` no longer interrupts it.

        What it has started is ended as soon as it waits for another rank.
        """
        self._state = FINISHED
        if self._background.is_running():
            self._abandoned = True
            self._mailbox.wake(self._run, WAKE, self.rank)
        self._background.end()
        self._state = FINISHED

    def complete_all_transfers(self) -> None:
        """After a run that went well: see through what nobody has waited for."""
        for work in list(self._transferring):
            self.complete_transfer(work)

    def unfinished_business(self) -> tuple[list[tuple[Any, ...]], bool]:
        """What a rank leaves behind: its messages that nobody took, and whether a transfer was cut off half-way."""
        return [(w.peer, w.tag, w.describe(), w.site) for w in self._offered.values()], bool(self._transferring)

    def close(self) -> None:
        """End the run: whatever still arrives for it is dropped."""
        self._forget()
        if self._journal is not None:
            self._journal.close()
            self._journal = None
        if self._files is not None:
            self._files.clear()
        self._closed = True
        self._end_threads()
        self._state = IDLE
        self._publish([])  # a rank that is late for the next run must not look as if it had finished it

    def _end_threads(self) -> None:
        """End what threads of the student's still wait for: they would go on waiting in the next run."""
        give_up = time.monotonic() + _THREAD_PATIENCE
        while self._waiting_threads - {threading.get_ident()} and time.monotonic() < give_up:
            self._mailbox.wake(self._run, WAKE, self.rank)
            time.sleep(0.001)

    def serve(self) -> None:
        """Answer all that is waiting in the inbox, without blocking."""
        for message in self._mailbox.waiting():
            self._take_in(message)
        self._publish([])

    def look(self) -> None:
        """As `serve`, in the middle of a run: the communication thread serves by itself while it is in a call."""
        if not self._background.is_running():
            self.serve()

    def discard(self) -> None:
        """Throw away all control messages, sent or not. The run must have been closed."""
        self._mailbox.discard()
        self._early.clear()

    def stop(self) -> None:
        """Called by a signal at any moment: leave the run, unless something is under way that must not be cut."""
        if self._shielded:
            self._stop_pending = True
        elif self._state in (RUNNING, BLOCKED):
            raise Stopped

    @contextlib.contextmanager
    def shield(self) -> Iterator[None]:
        """Inside this block `stop` waits until the block is left. It never interrupts the communication thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
        if self._stop_pending:
            self._stop_pending = False
            self.stop()

    def has_unsent(self) -> bool:
        """True while a control message could not go out because the other rank's inbox is full."""
        return not self._mailbox.flush()

    def inbox(self) -> Mailbox:
        """What to `select` on to see that `serve` has something to do."""
        return self._mailbox

    def now(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._start

    # ── starting ─────────────────────────────────────────────────────────────────────────────────────────────────

    def isend(self, group: Group, dst: int, tensor: torch.Tensor, tag: int, site: CallSite) -> SendWork:
        """Announce `tensor` to rank `dst` of `group`; see `Communicator.isend`."""
        self._background.wait_for_all()
        peer = group.members[dst]
        work = SendWork(self, group, dst, tensor, tag, site)
        if peer in self._dead:
            self._lose(work, peer)
            return work
        self._sequence += 1
        start = self._network_time()
        dtype, shape = dtype_name_of(tensor), tuple(tensor.shape)
        self._offered[self._sequence] = work
        device, nbytes = tensor.device.type, tensor.nbytes
        left = self._leave_early(work, nbytes, start)
        payload = self._payload(work, device, nbytes)
        if self.record:
            self.sent.append((self._sequence, peer, tag, nbytes, dtype, shape, start, self.round + 1, site))
            self._note("sent", self.sent[-1])
        header = (group.id, tag, dtype, shape, device, nbytes, self.round + 1, site.place, site.call)
        self._mailbox.post(peer, self._run, OFFER, self.rank, self._sequence, *header, start, left, payload)
        return work

    def _payload(self, work: SendWork, device: str, nbytes: int) -> bytes | Address | str | None:
        """What is announced with a tensor so that it can be taken at once; None if a transport must bring it."""
        if device == "cpu" and nbytes <= INLINE_BYTES:
            return to_bytes(work.tensor)
        if device == "cpu" and self.shares_memory:
            work.source = dense(work.tensor)
            return memory_address(work.source)
        if device == "cpu" and self._files is not None:
            return self._files.write(work.tensor)
        work.inline = False
        return None

    def irecv(self, group: Group, src: int | None, tensor: torch.Tensor, tag: int, site: CallSite) -> RecvWork:
        """Get ready for a message from rank `src` of `group` (None: any); see `Communicator.irecv`."""
        self._background.wait_for_all()
        work = RecvWork(self, group, src, tensor, tag, site)
        work.posted = self._network_time()
        dead = self._hopeless(work)
        if dead is not None:
            self._lose(work, dead)
            return work
        for offer in self._strangers:
            if work.wants(offer):
                self._strangers.remove(offer)
                self._meet_offer(work, offer)
                return work
        self._posted.append(work)
        return work

    def meet(self, group: Group, kind: str, contribution: Any, site: CallSite) -> list[Any]:
        """Everybody brings something and gets everybody's, in the order of ranks: what barrier and split are made of.

        The first member of the group collects the contributions and then releases the others.

        Raises:
            PeerLost: a member has died, and the others were not released before.
        """
        self._background.wait_for_all()
        group.meetings += 1
        key = (group.id, group.meetings, kind)
        self._mailbox.post(group.members[0], self._run, ARRIVED, self.rank, key, contribution)
        arrived: dict[int, Any] = self._arrived.setdefault(key, {})
        is_collector = self.rank == group.members[0]
        done = (lambda: len(arrived) == group.size) if is_collector else (lambda: key in self._released)
        gone = self._dead.intersection
        self._block_until(
            lambda: done() or bool(gone(group.members)),
            lambda: [(kind, group.members, "meeting", repr(key), site.place, None)],
        )
        if not done():
            raise lost_in_meeting(self.rank, kind, sorted(gone(group.members)), site.place)
        if is_collector:
            everybody, over = [arrived[member] for member in group.members], self.now()
            for member in group.members[1:]:
                self._mailbox.post(member, self._run, RELEASED, self.rank, key, (everybody, over))
            del self._arrived[key]
        else:
            everybody, over = self._released.pop(key)
        if self._pacing is not None:
            self._pacing.clock.reach(over)
        return everybody

    def start(self, call: Callable[[], object], number: int) -> StartedCall:
        """Run `call` in the background, after what was started before. Its `wait` returns `number`."""
        started = PacedCall(call, number, self._pacing.clock) if self._pacing is not None else StartedCall(call, number)
        self._background.start(started)
        return started

    def _prepare_thread(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)

    # ── blocking ─────────────────────────────────────────────────────────────────────────────────────────────────

    def wait_for(self, works: Sequence[MessageWork]) -> None:
        """Block until every one of `works` is done, answering the other ranks meanwhile."""
        self._background.wait_for_all()
        called = self._network_time()
        self._block_until(
            lambda: _are_settled(works),
            lambda: [work.waits_for() for work in works if not work.settled],
        )
        if self._pacing is not None and not any(isinstance(work.error, MessageMismatch) for work in works):
            self._wait_for_network(self._pacing, [work for work in works if work.error is None], called)
        for work in sorted(works, key=_severity):
            work.finish()

    def _block_until(
        self, done: Callable[[], bool], waits: Callable[[], list[tuple[Any, ...]]], alarm: float | None = None
    ) -> None:
        """Answer the other ranks until `done`. It is asked after each message, and when the clock says `alarm`."""
        for message in self._mailbox.waiting():
            self._take_in(message)
        if done():
            return
        with self._one_more_waits():
            run = self._run
            while not done():
                if self._abandoned or self._closed or self._run != run:
                    raise Stopped
                self._state = BLOCKED
                self._publish(waits())
                arrived = self._mailbox.next() if alarm is None else self._mailbox.next(max(0.0, alarm - self.now()))
                if arrived is not None:
                    self._take_in(arrived)
        self._state = RUNNING
        self._publish([])

    @contextlib.contextmanager
    def _one_more_waits(self) -> Iterator[None]:
        """In this block the running thread counts as one that waits for other ranks."""
        thread = threading.get_ident()
        self._waiting_threads.add(thread)
        try:
            yield
        finally:
            self._waiting_threads.discard(thread)

    def _publish(self, waits: list[tuple[Any, ...]]) -> None:
        """Write this rank's status; only then do the messages it has handled count as handled."""
        strangers = [(o.src, o.describe(), o.tag, o.place) for o in self._strangers[:4]]
        status = (self._state, self.round, waits, strangers, self._last_call)
        self._board.publish(self.rank, status, self._handled, self._dead)
        self._handled.clear()

    # ── on a paced network ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def network(self) -> Cluster | None:
        """What the messages of this world are paced by."""
        return self._pacing.cluster if self._pacing is not None else None

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; on a paced network more on a straggler, and the rank goes on answering meanwhile."""
        if self._pacing is None:
            time.sleep(seconds)
            return
        clock = self._pacing.clock
        alarm = clock.now() + seconds * self._pacing.slowdown()
        if self._background.is_running():
            time.sleep(max(0.0, alarm - self.now()))
        else:
            self._answer_until(alarm)
        clock.reach(alarm)

    def time(self) -> float:
        """Seconds since the run began; on a paced network by its clock."""
        return self.now() if self._pacing is None else self._pacing.clock.time()

    def _answer_until(self, alarm: float) -> None:
        """Answer the other ranks until the clock says `alarm`, as a rank that is not blocked."""
        while (left := alarm - self.now()) > 0:
            arrived = self._mailbox.next(left)
            if arrived is not None:
                self._take_in(arrived)
                self._publish([])

    def _network_time(self) -> float:
        return self.now() if self._pacing is None else self._pacing.clock.now()

    def _leave_early(self, work: SendWork, nbytes: int, posted: float) -> float | None:
        """If a message is eager, it leaves now, with its present content. Returns when it reaches the receiver."""
        times = self._pacing.leave(work.peer, nbytes, posted) if self._pacing is not None else None
        if times is None:
            return None
        left, work.end = times
        work.settled = True
        work.tensor = work.tensor.detach().clone()
        return left

    def _book(self, work: RecvWork, offer: Offer) -> None:
        """Two sides have met: from when to when does the message travel?"""
        if self._pacing is not None:
            with self.shield():
                times = self._pacing.meet(offer.src, offer.nbytes, offer.posted, offer.left, work.posted)
            work.taken, work.end = times

    def _wait_for_network(self, pacing: Pacing, works: Sequence[MessageWork], called: float) -> None:
        """Wait until all of `works` are over on the network. Their bytes move meanwhile."""
        self._state = BLOCKED
        self._publish([work.travels() for work in works])
        for work in works:
            self.complete_transfer(work)
        end = max((work.end for work in works if work.end is not None), default=called if works else self.now())
        self._block_until(lambda: self.now() >= end, lambda: [work.travels() for work in works], alarm=end)
        pacing.clock.reach(max(called, end))

    # ── answering ────────────────────────────────────────────────────────────────────────────────────────────────

    def _take_in(self, message: tuple[Any, ...]) -> None:
        run, kind, src, *rest = message
        if run > self._run:
            self._early.append(message)  # the others have begun a run that this rank has yet to hear of
            return
        self._handled.append(src)
        if run < self._run or self._closed:
            return
        if kind == OFFER:
            self._on_offer(Offer(src, *rest))
        elif kind == TAKE:
            self._on_take(*rest)
        elif kind == SENT:
            self._arriving.pop((src, *rest)).arrive()
        elif kind == REFUSE:
            sequence, text = rest
            self._settle_with_error(self._offered.pop(sequence), text)
        elif kind == ARRIVED:
            key, contribution = rest
            self._arrived.setdefault(key, {})[src] = contribution
        elif kind == RELEASED:
            key, released = rest
            self._released[key] = released
        elif kind == LOST:
            self._on_lost(src)

    def _on_offer(self, offer: Offer) -> None:
        for work in self._posted:
            if work.wants(offer):
                self._posted.remove(work)
                self._meet_offer(work, offer)
                return
        self._strangers.append(offer)

    def _meet_offer(self, work: RecvWork, offer: Offer) -> None:
        """A receive and an announcement have found each other."""
        problem = work.mismatch(offer)
        if problem:
            self._mailbox.post(offer.src, self._run, REFUSE, self.rank, offer.sequence, problem)
            self._settle_with_error(work, problem)
            return
        self._book(work, offer)
        work.accept(offer)
        if isinstance(offer.payload, bytes):
            from_bytes(offer.payload, work.tensor)
            work.arrive()
        elif isinstance(offer.payload, str):
            read_tensor(offer.payload, work.tensor)
            work.arrive()
        elif offer.payload is not None:
            if not fill_from(offer.payload, work.tensor):
                self._arriving[offer.src, offer.sequence] = work
                return  # that rank is gone; the supervisor has seen it and reports it
            work.arrive()
        else:
            self._arriving[offer.src, offer.sequence] = work
            wait = self._transports[offer.device].receive(work.tensor, offer.src, offer.sequence)
            self._transferring[work] = wait
        self._mailbox.post(offer.src, self._run, TAKE, self.rank, offer.sequence, work.end)

    def _on_take(self, sequence: int, end: float | None) -> None:
        work = self._offered.pop(sequence)
        if not work.settled:  # an eager one has been over for its sender since it left
            work.end = end
        if not work.inline:
            transport = self._transports[work.tensor.device.type]
            self._transferring[work] = transport.send(work.tensor, work.peer, sequence)
            self._mailbox.post(work.peer, self._run, SENT, self.rank, sequence)
        work.settled = True

    def complete_transfer(self, work: MessageWork) -> None:
        """Wait for gloo or NCCL, which has been given both ends of the transfer."""
        wait = self._transferring.get(work)
        if wait is not None:
            with self.shield():
                wait()
                del self._transferring[work]

    def _settle_with_error(self, work: MessageWork, problem: str) -> None:
        work.error, work.settled = MessageMismatch(problem), True
        self._failed.append(work)

    def _note(self, kind: str, row: Sequence[Any]) -> None:
        if self._journal is not None:
            self._journal.note(kind, row)

    def note_received(self, row: list[Any]) -> None:
        """Note that a message has come."""
        if self.record:
            self.received.append(row)
            self._note("received", row)

    def amend_received(self, row: list[Any]) -> None:
        """Note that more is known of a message whose row has been noted; the row itself was changed in place."""
        self._note("received", row)

    # ── the dead ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _on_lost(self, dead: int) -> None:
        """A rank has died: what waits for it is lost, and so is what it had only begun."""
        self._dead.add(dead)
        self._strangers[:] = [offer for offer in self._strangers if offer.src != dead or offer.is_complete()]
        for sequence, sending in list(self._offered.items()):
            if sending.peer == dead and not sending.settled:
                del self._offered[sequence]
                self._lose(sending, dead)
        for key, arriving in list(self._arriving.items()):
            if key[0] == dead:
                del self._arriving[key]
                self._lose(arriving, dead)
        for posted in list(self._posted):
            if self._hopeless(posted) == dead:
                self._posted.remove(posted)
                self._lose(posted, dead)

    def _hopeless(self, work: RecvWork) -> int | None:
        """The dead rank because of which a receive ends now, unless what it had sent comes first; None if none."""
        gone = self._dead - self._told if work.demand == "any" else self._dead
        left = {offer.src for offer in self._strangers if work.wants(offer)} if gone else set()
        return next((dead for dead in sorted(gone - left) if dead in work.peers), None)

    def _lose(self, work: MessageWork, dead: int) -> None:
        """End a message whose other end has died. A receive from anyone is how a rank is told of that."""
        from_anyone = work.demand == "any"
        if from_anyone:
            self._told.add(dead)
        work.error = lost_in_message(self.rank, work.verb, work.describe(), dead, from_anyone, work.site.place)
        work.settled = True

    def _forget(self) -> None:
        self.sent: list[SentRow] = []
        self.received: list[list[Any]] = []  # ReceivedRow, but the end of a large one is filled in later
        self.round = 0  # the highest round received so far: this rank's logical clock
        self._last_call = None
        self._offered: dict[int, SendWork] = {}
        self._posted: list[RecvWork] = []
        self._strangers: list[Offer] = []
        self._arriving: dict[tuple[int, int], RecvWork] = {}
        self._arrived: dict[tuple[Any, ...], dict[int, Any]] = {}
        self._released: dict[tuple[Any, ...], tuple[list[Any], float]] = {}
        self._transferring: dict[MessageWork, Wait] = {}
        self._failed: list[MessageWork] = []
        self._dead: set[int] = set()
        self._told: set[int] = set()  # those of whom a receive from anyone has told


def _are_settled(works: Sequence[MessageWork]) -> bool:
    """Whether all of `works` are settled, or one of them doesn't fit. Asked after every control message."""
    settled = True
    for work in works:
        if isinstance(work.error, MessageMismatch):
            return True
        settled = settled and work.settled
    return settled


def _severity(work: MessageWork) -> int:
    """In which order works are finished: those that don't fit, those that went well, those whose other end is dead."""
    return 1 if work.error is None else 0 if isinstance(work.error, MessageMismatch) else 2


class MessageWork(Work):
    """A message that was started: what sending and receiving have in common.

    It is *settled* once both ranks have met and nothing can keep it from being completed, and *finished* once the
    rank that started it has waited for it.
    """

    verb: str  # what its rank does: "send to" or "receive from"
    demand = "all"  # "any" if it takes a message from any of several ranks

    def __init__(self, endpoint: Endpoint, group: Group, tensor: torch.Tensor, tag: int, site: CallSite) -> None:
        self.endpoint, self.group, self.tensor, self.tag, self.site = endpoint, group, tensor, tag, site
        self.settled = self.finished = False
        self.error: MessageMismatch | PeerLost | None = None
        self.end: float | None = None  # on a paced network: when it is over for this side, in seconds of the run

    def wait(self) -> int:
        self.endpoint.wait_for([self])
        return self.other_end()

    def is_completed(self) -> bool:
        if not self.settled:
            self.endpoint.look()
        return self.settled and (self.end is None or self.endpoint.now() >= self.end)

    def finish(self) -> None:
        """What is left to do once the message is settled: raise its error, or see the last bytes through."""
        first_time, self.finished = not self.finished, True
        if self.error is not None:
            raise self.error
        if first_time:
            self.complete()

    def complete(self) -> None:
        """See the last bytes through."""
        self.endpoint.complete_transfer(self)

    def describe(self) -> str:
        """What is sent or received: "4 float32"."""
        return describe_tensor(self.tensor.shape, dtype_name_of(self.tensor))

    def other_end(self) -> int:
        """The rank in the group with which the message was exchanged."""
        raise NotImplementedError

    def waits_for(self) -> tuple[Any, ...]:
        """For the status board: (kind, ranks, "all" or "any" of them, what, place, collective call or None)."""
        raise NotImplementedError

    def travels(self) -> tuple[Any, ...]:
        """For the status board, like `waits_for`: the message is under way on a paced network."""
        raise NotImplementedError


class SendWork(MessageWork):
    """A message on its way out."""

    verb = "send to"

    def __init__(
        self, endpoint: Endpoint, group: Group, dst: int, tensor: torch.Tensor, tag: int, site: CallSite
    ) -> None:
        super().__init__(endpoint, group, tensor, tag, site)
        self.dst, self.peer = dst, group.members[dst]
        self.inline = True  # whether all that is needed goes with the announcement
        self.source: torch.Tensor | None = None  # what the other rank reads, kept until it has done so

    def other_end(self) -> int:
        return self.dst

    def waits_for(self) -> tuple[Any, ...]:
        return ("send", (self.peer,), "all", self.describe(), self.site.place, self.site.call)

    def travels(self) -> tuple[Any, ...]:
        return ("travel to", (self.peer,), "all", self.describe(), self.site.place, self.site.call)


class RecvWork(MessageWork):
    """A message that is waited for, or on its way in."""

    verb = "receive from"

    def __init__(
        self,
        endpoint: Endpoint,
        group: Group,
        src: int | None,
        tensor: torch.Tensor,
        tag: int,
        site: CallSite,
    ) -> None:
        super().__init__(endpoint, group, tensor, tag, site)
        self.peers = group.others(endpoint.rank) if src is None else (group.members[src],)
        self.demand = "any" if src is None else "all"
        self.posted = 0.0
        self.taken: float | None = None  # on a paced network: when the message starts
        self._offer: Offer | None = None
        self._row: list[Any] = []

    def wants(self, offer: Offer) -> bool:
        return offer.tag == self.tag and offer.group == self.group.id and offer.src in self.peers

    def mismatch(self, offer: Offer) -> str | None:
        """What is wrong if this receive gets that message; None if they fit."""
        there, here = (offer.call, offer.place), (self.site.call, self.site.place)
        other_call = different_calls(offer.src, there, self.endpoint.rank, here)
        if other_call is not None:
            return other_call
        mine = (self.tensor.device.type, dtype_name_of(self.tensor), self.tensor.nbytes)
        if mine == (offer.device, offer.dtype, offer.nbytes):
            return None
        length = math.prod(offer.shape)
        sender = End(offer.src, offer.describe(), offer.device, offer.dtype, length, offer.place, offer.call)
        rank, site = self.endpoint.rank, self.site
        return misfit(sender, End(rank, self.describe(), *mine[:2], self.tensor.numel(), site.place, site.call))

    def accept(self, offer: Offer) -> None:
        """Note which message this receive is getting, and when the two met."""
        taken = self.endpoint.now() if self.taken is None else self.taken
        self._offer, self._row = offer, [offer.src, offer.sequence, taken, self._over(), self.site]

    def arrive(self) -> None:
        """The payload is here, or gloo or NCCL is about to bring it: nothing can get stuck any more."""
        self._row[3] = self._over()
        self.endpoint.note_received(self._row)
        self.settled = True

    def complete(self) -> None:
        assert self._offer is not None
        super().complete()
        if not self._offer.payload:
            self._row[3] = self._over()
            self.endpoint.amend_received(self._row)
        self.endpoint.round = max(self.endpoint.round, self._offer.round)

    def _over(self) -> float:
        return self.endpoint.now() if self.end is None else self.end

    def other_end(self) -> int:
        assert self._offer is not None
        return self.group.members.index(self._offer.src)

    def waits_for(self) -> tuple[Any, ...]:
        if self._offer is not None:
            return ("payload", (self._offer.src,), "all", self.describe(), self.site.place, self.site.call)
        return ("recv", self.peers, self.demand, self.describe(), self.site.place, self.site.call)

    def travels(self) -> tuple[Any, ...]:
        assert self._offer is not None
        return ("travel from", (self._offer.src,), "all", self.describe(), self.site.place, self.site.call)


class Group:
    """Which ranks of the world form a communicator, and under which name their messages travel."""

    def __init__(self, id: tuple[int, ...], members: tuple[int, ...]) -> None:
        self.id = id
        self.members = members
        self.meetings = 0

    @property
    def size(self) -> int:
        return len(self.members)

    def others(self, rank: int) -> tuple[int, ...]:
        """All members but `rank`."""
        return tuple(member for member in self.members if member != rank)
