"""The engine of `SimulatedWorld`: which rank waits for which, when a message travels, and which rank runs next.

The model of time, and why the order in which ranks run does not matter, are explained in simulator. In short:

    both calls block, and nothing else of the two ranks is under way  ──► timed at once
    anything that may compete                                         ──► deferred until no rank can run;
                                                                          then the earliest one goes first
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from distlib.communicator import Work
from distlib.network import Cluster
from distlib.trace import CallSite
from distlib.worlds.call_site import site_of_frame
from distlib.worlds.deaths import WhileWaiting, lost_in_meeting, lost_in_message
from distlib.worlds.diagnosis import LastCall, MessageMismatch, PeerLost, RankState, Wait
from distlib.worlds.message_check import End, different_calls, misfit
from distlib.worlds.simulated.background import SimulatedBackground
from distlib.worlds.simulated.deaths import NEVER, Deaths
from distlib.worlds.simulated.rank_contexts import (
    OUTSIDE,
    CallInHub,
    Context,
    Ended,
    ThreadContext,
    current_backward,
)
from distlib.worlds.simulated.torch_modes import PLAIN, Modes, current_modes, set_modes
from distlib.worlds.tensor_bytes import describe_tensor, dtype_name_of, from_bytes, to_bytes

_PASSES_ON = True  # see worlds.call_site

_NOWHERE = "a line that was not recorded"
ANYONE = -1  # the peer of a receive that takes from any rank
_NO_TENSOR = torch.empty(0)
_is_grad_enabled = torch.is_grad_enabled
_POLL_SECONDS = 1e-6  # virtual time of a look at a message that is still under way
_STRETCH = 64  # by how many sends and receives a rank may be ahead of the last one that can run
Problem = MessageMismatch | PeerLost
Key = tuple[int, int, int, int]  # source, destination, tag, group


@lru_cache(maxsize=256)
def unrecorded(call: str | None) -> CallSite:
    """The call site where lines are not recorded. The same object for the same collective call."""
    return CallSite(_NOWHERE, "", "", 0, call=call)


class SimulatedRank:
    """What the engine knows of one rank."""

    __slots__ = (
        "background",
        "both",
        "broken",
        "bytes_received",
        "bytes_sent",
        "calls",
        "context",
        "dead",
        "dies",
        "finished",
        "begun",
        "in_free",
        "last_call",
        "loose",
        "meeting",
        "messages_received",
        "messages_sent",
        "missing",
        "now",
        "number",
        "out_free",
        "receive",
        "round",
        "send",
        "site",
        "told",
        "waiting",
    )

    def __init__(self, engine: Engine, number: int) -> None:
        self.number = number
        self.renew(engine, send=True, receive=True)
        self.context: Context
        self.background = SimulatedBackground(self)
        self.now = self.out_free = self.in_free = 0.0
        self.round = 0
        self.missing = 0  # how many of the operations it waits for are not yet done
        self.loose = 0  # how many of its isends and irecvs are not yet done
        self.begun = 0  # how many messages it has begun to send or to receive
        self.calls = 0  # how many collective calls it has begun
        self.last_call: tuple[str, str] | None = None  # and of the last one its text and the student's line
        self.waiting: Sequence[Operation] = ()
        self.meeting: tuple[str, tuple[Any, ...], tuple[int, ...]] | None = None
        self.finished = self.dead = False
        self.dies: float = NEVER
        self.broken: PeerLost | None = None  # why its meeting will not take place
        self.told: set[int] = set()  # the dead that its receives from anyone have reported
        self.site: CallSite | None = None  # the line it speaks from, if its code runs in another process
        self.messages_sent = self.messages_received = self.bytes_sent = self.bytes_received = 0

    def renew(self, engine: Engine, send: bool = False, receive: bool = False) -> None:
        """Get a new operation for blocking calls where the old one is still under way after its call has ended."""
        if send:
            self.send = Operation(engine, self, is_send=True, blocking=True)
        if receive:
            self.receive = Operation(engine, self, is_send=False, blocking=True)
        self.both = (self.send, self.receive)

    def let_go_of_tensors(self) -> None:
        """Keep no tensor of blocking calls that have returned: its memory may be asked for, or accounted."""
        for operation in self.both:
            if operation.done:
                operation.tensor = _NO_TENSOR


class Operation(Work):
    """One end of a message: a send, or a receive.

    A rank is in at most one blocking send and one blocking receive at a time, so it keeps two operations that it uses
    again and again (making an object for each message would be half of the engine's time). While one of these waits
    for its other end it is `open`; all other operations that wait for theirs stand in a queue of the engine.
    """

    __slots__ = (
        "blocking",
        "done",
        "eager",
        "end",
        "engine",
        "error",
        "group",
        "is_send",
        "nbytes",
        "open",
        "peer",
        "rank",
        "round",
        "site",
        "tag",
        "tensor",
        "time",
        "turn",
        "waited",
    )

    def __init__(self, engine: Engine, rank: SimulatedRank, is_send: bool, blocking: bool) -> None:
        self.engine, self.rank, self.is_send, self.blocking = engine, rank, is_send, blocking
        self.eager = self.done = self.open = self.waited = False
        self.error: Problem | None = None
        self.end = 0.0
        self.tensor = _NO_TENSOR

    def begin(self, tensor: torch.Tensor, peer: int, tag: int, group: SimulatedGroup, site: CallSite) -> None:
        """Say what is to be sent or received. `peer` is a number in the world, or ANYONE."""
        rank = self.rank
        self.tensor = tensor
        self.nbytes = tensor.nbytes
        self.peer = peer
        self.tag = tag
        self.group = group
        self.site = site
        self.time = rank.now
        self.round = rank.round + 1
        self.turn = rank.begun = rank.begun + 1
        self.done = False

    def wait(self) -> int:
        self.engine.wait(self.rank, (self,))
        return self.group.members.index(self.peer)

    def is_completed(self) -> bool:
        return self.engine.look(self)


class SimulatedGroup:
    """Which ranks of the world form a communicator. One object, shared by its ranks."""

    __slots__ = ("id", "members")

    def __init__(self, id: int, members: tuple[int, ...]) -> None:
        self.id = id
        self.members = members


class Engine:
    """One run on a simulated cluster.

    Args:
        cluster: which links there are.
        world_size: how many ranks.
        hub: the context to return to when no rank can run.
        single_threaded: whether contexts must not be left inside a backward pass.
        record: whether to keep every message, with its lines; counts are always kept.
        deaths: by rank, when it dies, in virtual seconds, or by what.
    """

    def __init__(
        self,
        cluster: Cluster,
        world_size: int,
        hub: Context,
        single_threaded: bool,
        record: bool,
        deaths: Mapping[int, float | WhileWaiting],
    ) -> None:
        self.ranks = [SimulatedRank(self, number) for number in range(world_size)]
        self.rows: list[tuple[Any, ...]] = []  # what a Message is made of; making it here would take as long as sending
        self.rounds = 0
        self.running: SimulatedRank | None = None
        self.over = False  # whether the ranks that have not finished are to end
        self.record = record
        self.modes: Modes | None = None  # of torch in the hub's thread, as the last rank has left them; None: unknown
        self._cluster = cluster
        self._uniform = cluster.uniform_link()
        self._eager_limit = cluster.eager_limit if cluster.eager_limit > 0 else -1  # with a limit, 0 bytes are eager
        self._shared_uplink = cluster.shared_uplink
        self._hub = hub
        self.single_threaded = single_threaded
        self._ready: list[SimulatedRank] = []  # the last comes first: its data is still near the processor
        self._ahead: list[SimulatedRank] = []  # these can run, too, but have begun as many messages as the horizon says
        self._horizon = 0  # nobody goes on before all have started
        self._sends: dict[Key, deque[Operation]] = {}
        self._receives: dict[Key, deque[Operation]] = {}
        self._from_anyone: list[Operation] = []
        self._deferred: list[tuple[float, float, int, int, int, Operation, Operation]] = []
        self._deferrals = 0
        self._pollers: list[SimulatedRank] = []
        self._unseen: dict[Operation, MessageMismatch] = {}  # what did not fit, and its rank has not waited for it
        self._meetings: dict[tuple[Any, ...], dict[int, Any]] = {}
        self._outcomes: dict[tuple[Any, ...], list[Any]] = {}
        self._groups: dict[tuple[Any, ...], SimulatedGroup] = {}
        self._uplinks: dict[tuple[str, int], float] = {}
        self._deaths = Deaths(self, self.ranks, deaths) if deaths else None
        self._plain = not (deaths or cluster.eager_limit > 0 or cluster.shared_uplink)  # the ports alone set the times

    # ── which rank runs ──────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Let all ranks run until none can go on: each has finished or is blocked for ever."""
        for rank in self.ranks:  # started from the hub, since a greenlet begins at the depth of the one that starts it
            self.running = rank
            rank.context.switch()
        while self._ready or self._move_the_horizon() or self._go_on_with_the_earliest():
            if self._ready:
                self.running = rank = self._ready.pop()
                rank.context.switch()

    def _move_the_horizon(self) -> bool:
        """Let those run that have gone ahead. False if there are none.

        Without a horizon the ranks of a ring run in long diagonals, and each time that one of them comes its data is no
        longer near the processor. With it, a few neighbors go some steps, then the next few. Ranks of odd numbers go
        first: their neighbors then find both partners waiting, and take two steps in a row.
        """
        if self._ahead:
            self._horizon = min(rank.begun for rank in self._ahead) + _STRETCH
            self._ready, self._ahead = sorted(self._ahead, key=lambda rank: rank.number % 2), []
        return bool(self._ready)

    def block(self, rank: SimulatedRank) -> None:
        """Let the others run until `rank` is ready again."""
        if self.over:  # code of a `finally` communicates while the rank is ended
            raise Ended
        self._leave_context()

    def _leave_context(self) -> None:
        if self.single_threaded and current_backward() != OUTSIDE:
            raise RuntimeError(
                "a rank communicates inside backward(), which takes a thread for each rank: "
                'make the world with SimulatedWorld(…, contexts="threads")'
            )
        if not self._here.in_hub:
            self._switch()
            return
        self.modes = modes = current_modes()
        self._switch()
        if self.modes != modes:  # torch keeps them by thread, and the ranks share one
            set_modes(modes)

    def _switch(self) -> None:
        """Continue the next rank that is ready; where that one runs in another thread, the hub does it."""
        if self._ready and self._ready[-1].context.in_hub is self._here.in_hub:
            self.running = rank = self._ready.pop()
            rank.context.switch()
        else:
            self._hub.switch()

    @property
    def _here(self) -> Context:
        assert self.running is not None
        return self.running.context

    def run_in_hub(self, rank: SimulatedRank, call: Callable[[], object]) -> None:
        """Run a call of `rank` in the thread of the hub, and return when it is over. Raises what it raises.

        Of torch's modes only those hold in there that the call enters itself.
        """
        thread = rank.context

        def begin() -> None:
            set_modes(PLAIN)
            call()

        def end() -> None:
            self.modes = None
            rank.context = thread
            self._ready.append(rank)

        assert isinstance(self._hub, ThreadContext)
        rank.context = in_hub = CallInHub(begin, end, thread, self._hub)
        self._ready.append(rank)
        self._hub.switch()
        if in_hub.error is not None:
            raise in_hub.error

    def _go_on_with_the_earliest(self) -> bool:
        """No rank can run: time the deferred message that was ready first. False if there is none."""
        polled, self._pollers = self._pollers, []
        self._ready.extend(polled)
        choices = [(*_order(send, receive), send, receive) for send, receive in self._candidates()]
        first = min(choices, key=lambda choice: choice[:4], default=None)
        if self._deaths is not None:
            times = [choice[0] for choice in (first, *self._deferred[:1]) if choice is not None]
            if self._deaths.strike(min([*times, *(rank.now for rank in polled)], default=NEVER)):
                return True
        pair = self._earliest(first)
        if pair is not None:
            finish = self._fail if _differ(*pair) else self._complete
            finish(*pair)
        return pair is not None or bool(polled)

    def _earliest(
        self, first: tuple[float, float, int, int, Operation, Operation] | None
    ) -> tuple[Operation, Operation] | None:
        """Of all that is deferred, the pair that was ready first; of equals, the one that was offered first.

        Args:
            first: of the pairs with a receive from anyone.
        """
        if self._deferred and (first is None or self._deferred[0][:4] <= first[:4]):
            *_, send, receive = heapq.heappop(self._deferred)
            return send, receive
        if first is None:
            return None
        *_, send, receive = first
        self._from_anyone.remove(receive)
        self._take(send)
        return send, receive

    def _candidates(self) -> list[tuple[Operation, Operation]]:
        """For every receive from anyone, the messages that it could take."""
        pairs = []
        for receive in self._from_anyone:
            for src in receive.group.members:
                send = self._send_for(receive, src)
                if send is not None and not (self._deaths and _is_too_late(send, receive)):
                    pairs.append((send, receive))
        return pairs

    # ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, operation: Operation) -> None:
        """Start a send: meet the receive that waits for it, or wait for one."""
        rank = operation.rank
        if operation.nbytes <= self._eager_limit and self._leave(operation):
            rank.renew(self, send=True)
        elif not operation.blocking:
            rank.loose += 1
        receive = self._receive_for(operation)
        if receive is not None:
            if receive.open:  # as `_take`, which is not called for each message
                receive.open = False
            else:
                self._take(receive)
            self._meet(operation, receive)
        elif operation.blocking and not operation.eager:
            operation.open = True
        else:
            self._queue(operation)

    def receive(self, operation: Operation) -> None:
        """Start a receive: meet the send that waits for it, or wait for one."""
        if self._deaths is not None:
            self._deaths.on_receive(operation.rank)
        if not operation.blocking:
            operation.rank.loose += 1
        if operation.peer == ANYONE:
            self._from_anyone.append(operation)
            return
        send = self._send_for(operation, operation.peer)
        if send is not None:
            if send.open:
                send.open = False
            else:
                self._take(send)
            self._meet(send, operation)
        elif operation.blocking:
            operation.open = True
        else:
            self._queue(operation)

    def _send_for(self, receive: Operation, src: int) -> Operation | None:
        """The send of `src` that a receive would meet, if there is one. What is queued came before what is open."""
        number, tag, group = receive.rank.number, receive.tag, receive.group
        if self._sends:
            queue = self._sends.get((src, number, tag, group.id))
            if queue:
                return queue[0]
        send = self.ranks[src].send
        return send if send.open and send.peer == number and send.tag == tag and send.group is group else None

    def _receive_for(self, send: Operation) -> Operation | None:
        """The receive that a send would meet, if there is one, apart from receives from anyone."""
        number, tag, group = send.rank.number, send.tag, send.group
        if self._receives:
            queue = self._receives.get((number, send.peer, tag, group.id))
            if queue:
                return queue[0]
        receive = self.ranks[send.peer].receive
        met = receive.open and receive.peer == number and receive.tag == tag and receive.group is group
        return receive if met else None

    def _queue(self, operation: Operation) -> None:
        queues, key = self._queues_of(operation)
        queues.setdefault(key, deque()).append(operation)

    def _take(self, operation: Operation) -> None:
        """Take an operation from where it waits for its other end."""
        if operation.open:
            operation.open = False
            return
        queues, key = self._queues_of(operation)
        queue = queues[key]
        queue.popleft()
        if not queue:
            del queues[key]

    def _queues_of(self, operation: Operation) -> tuple[dict[Key, deque[Operation]], Key]:
        here, there, tag, group = operation.rank.number, operation.peer, operation.tag, operation.group.id
        return (
            (self._sends, (here, there, tag, group))
            if operation.is_send
            else (self._receives, (there, here, tag, group))
        )

    def wait(self, rank: SimulatedRank, operations: Sequence[Operation]) -> None:
        """Block until all `operations` of `rank` are done; its clock goes on to the last of them."""
        missing = 0
        for operation in operations:
            if not operation.done:
                operation.waited = True
                missing += 1
        if missing:
            rank.missing, rank.waiting = missing, operations
            self.block(rank)
            rank.waiting = ()
        now, problem = rank.now, None
        for operation in operations:
            if operation.end > now:
                now = operation.end
            if operation.error is not None:
                problem = problem or operation.error
                self._unseen.pop(operation, None)
            elif not operation.is_send and operation.round > rank.round:
                rank.round = operation.round
        rank.now = now
        if now >= rank.dies:
            self.die(rank)
        if problem is not None:
            self._give_up(rank, operations, problem)

    def _give_up(self, rank: SimulatedRank, operations: Sequence[Operation], problem: Problem) -> None:
        for operation in operations:
            operation.waited = False
            if operation.open:  # it is still under way, though its call ends here
                operation.open = False
                self._queue(operation)
        rank.renew(self, send=True, receive=True)
        raise problem

    def look(self, operation: Operation) -> bool:
        """Whether an operation is done. An unsuccessful poll costs a microsecond of virtual time."""
        rank = operation.rank
        if not operation.done:
            self._pollers.append(rank)
            self.block(rank)
        if operation.done and operation.end <= rank.now:
            return True
        rank.now += _POLL_SECONDS
        if rank.now >= rank.dies:
            self.die(rank)
        return False

    def meet_all(
        self, rank: SimulatedRank, kind: str, key: tuple[Any, ...], members: tuple[int, ...], contribution: Any
    ) -> list[Any]:
        """Wait for all `members`; everybody goes on when the last one has come, with everybody's contribution."""
        arrived = self._meetings.setdefault(key, {})
        arrived[rank.number] = contribution
        latest = max(self.ranks[member].now for member in members) if len(arrived) == len(members) else NEVER
        if latest >= NEVER or self._deaths and latest >= min(self.ranks[member].dies for member in members):
            rank.meeting = (kind, key, members)
            self.block(rank)
            rank.meeting = None
            if rank.broken is not None:
                problem, rank.broken = rank.broken, None
                raise problem
            return self._outcomes[key]
        self._outcomes[key] = [arrived[member] for member in members]
        for member in members:
            self.ranks[member].now = latest
            if member != rank.number:
                self._ready.append(self.ranks[member])
        return self._outcomes[key]

    def die(self, rank: SimulatedRank) -> None:
        """The running rank's time has come. What it has started in the background goes on up to that time."""
        if self.over:
            raise Ended
        if rank.background.calls:
            rank.background.run_up_to(rank.background.calls[-1])
        if self._deaths is not None:  # there are none, and it has slept for ever
            self._deaths.end(rank)
            self._leave_context()

    def break_up(self, rank: SimulatedRank, when: float, dead: Sequence[int]) -> None:
        """A rank leaves at `when` a barrier or a split that the ranks `dead` can't reach any more."""
        assert rank.meeting is not None
        rank.now = when
        rank.broken = lost_in_meeting(rank.number, rank.meeting[0], dead, place_of(rank))
        self._ready.append(rank)

    def waiting_for(self, dead: SimulatedRank) -> Iterator[Operation]:
        """What living ranks wait for that is not to come any more, since that rank is dead."""
        number = dead.number
        queued = [(key, queue) for key, queue in self._sends.items() if key[1] == number]
        queued += [(key, queue) for key, queue in self._receives.items() if key[0] == number]
        for _, queue in queued:
            yield from (operation for operation in queue if not operation.eager and not operation.rank.dead)
        for rank in self.ranks:
            yield from (each for each in rank.both if each.open and each.peer == number and not rank.dead)
        for receive in self._from_anyone:
            if number in receive.group.members and number not in receive.rank.told and not receive.rank.dead:
                send = self._send_for(receive, number)
                if send is None or not send.eager:
                    yield receive

    def lose(self, operation: Operation, dead: SimulatedRank) -> None:
        """The end for an operation that a rank still waits with for a dead one."""
        self._withdraw(operation)
        self._lose(operation, dead)

    def _withdraw(self, operation: Operation) -> None:
        """Take an operation from where it waits, wherever it stands in its queue."""
        if operation.open:
            operation.open = False
        elif operation.peer == ANYONE:
            self._from_anyone.remove(operation)
        else:
            queues, key = self._queues_of(operation)
            queues[key].remove(operation)
            if not queues[key]:
                del queues[key]

    def _lose(self, operation: Operation, dead: SimulatedRank) -> None:
        """The other end of an operation is dead: a rank that waits for the operation learns of it."""
        rank = operation.rank
        if operation.peer == ANYONE:
            rank.told.add(dead.number)
        verb, what = "send to" if operation.is_send else "receive from", _describe(operation.tensor)
        from_anyone, place = operation.peer == ANYONE, operation.site.place
        operation.error = lost_in_message(rank.number, verb, what, dead.number, from_anyone, place)
        operation.end = max(operation.time, dead.dies)
        self._settle(operation)

    def group(self, key: tuple[Any, ...], members: tuple[int, ...]) -> SimulatedGroup:
        """The group of this key: one object for all its ranks."""
        if key not in self._groups:
            self._groups[key] = SimulatedGroup(len(self._groups) + 1, members)
        return self._groups[key]

    def note_call(self, rank: SimulatedRank, call: str, place: str) -> None:
        """Note that a collective call begins on a rank."""
        rank.calls += 1
        rank.last_call = call, place

    # ── timing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _leave(self, send: Operation) -> bool:
        """An eager message leaves without waiting for its receiver; its content is what it is now.

        False if an end of it would die before: then it goes the way of those that are not eager.
        """
        rank = send.rank
        latency, busy = self._cost(send)
        start = max(rank.now, rank.out_free)
        if start + busy >= min(rank.dies, self.ranks[send.peer].dies):
            return False
        rank.out_free = send.end = start + busy
        send.eager, send.done = True, True
        send.time = start + latency  # when it reaches the receiver's port
        send.tensor = send.tensor.detach().clone()
        return True

    def _meet(self, send: Operation, receive: Operation) -> None:
        if _differ(send, receive):
            self._fail(send, receive)
        elif (
            receive.blocking
            and not receive.rank.loose
            and not self._shared_uplink
            and (send.eager or send.blocking and not send.rank.loose)
        ):  # nothing else of the two ranks is under way
            self._complete(send, receive)
        else:
            self._deferrals += 1
            heapq.heappush(self._deferred, (*_order(send, receive), self._deferrals, send, receive))

    def _complete(self, send: Operation, receive: Operation) -> None:
        """Deliver a message: ports, clocks, contents, counts."""
        sender, receiver = send.rank, receive.rank
        nbytes = send.nbytes
        if self._plain:
            link = self._uniform or self._cluster.link(sender.number, receiver.number)
            start = max(send.time, receive.time, sender.out_free, receiver.in_free)
            free = sender.out_free = receiver.in_free = start + nbytes / link.bandwidth
            send.end = receive.end = free + link.latency
        else:
            start = self._time(send, receive)
            if receive.end >= NEVER:
                self._cut(send, receive)
                return
        receive.peer = sender.number
        round_ = receive.round = send.round
        if round_ > self.rounds:
            self.rounds = round_
        if not send.tensor.is_meta:  # those on the meta device have no contents
            _copy(send.tensor, receive.tensor)
        sender.messages_sent += 1
        sender.bytes_sent += nbytes
        receiver.messages_received += 1
        receiver.bytes_received += nbytes
        if self.record:
            self._record(send, receive, start)
        if not send.eager:
            self._settle(send)
        self._settle(receive)

    def _time(self, send: Operation, receive: Operation) -> float:
        """When a message is there, where ranks die, messages are eager, or nodes share a link. Returns its start.

        It arrives at NEVER if an end of it dies before.
        """
        sender, receiver = send.rank, receive.rank
        link = self._uniform or self._cluster.link(sender.number, receiver.number)
        busy = send.nbytes / link.bandwidth
        uplinks = self._shared_uplink and self._uplinks_between(sender.number, receiver.number)
        if send.eager:
            start = max(send.time, receiver.in_free)
            end = max(start + busy, receive.time)
        else:
            start = max(send.time, receive.time, sender.out_free, receiver.in_free)
            if uplinks:
                start = max(start, *(self._uplinks.get(port, 0.0) for port in uplinks))
            end = start + busy + link.latency
        dies = _dies(send, receive) if self._deaths else NEVER
        free = min(start + busy, dies)  # a port is free again when the other end is dead
        if dies > start:
            receiver.in_free = free
            if not send.eager:
                sender.out_free = free
                for port in uplinks or ():
                    self._uplinks[port] = free
        receive.end = end if end < dies else NEVER
        if not send.eager:
            send.end = receive.end
        return start

    def _cost(self, send: Operation) -> tuple[float, float]:
        """Latency, and the time for which the ports are busy, in seconds."""
        link = self._uniform or self._cluster.link(send.rank.number, send.peer)
        return link.latency, send.nbytes / link.bandwidth

    def _uplinks_between(self, src: int, dst: int) -> tuple[tuple[str, int], ...]:
        """The ranks of a node share a link to other nodes: one message at a time, in each direction."""
        there, here = self._cluster.node_of(src), self._cluster.node_of(dst)
        return () if there == here else (("out", there), ("in", here))

    def _settle(self, operation: Operation) -> None:
        operation.done = True
        if not operation.blocking:
            operation.rank.loose -= 1
        if operation.waited:
            operation.waited = False
            rank = operation.rank
            rank.missing -= 1
            if not rank.missing:
                (self._ready if rank.begun < self._horizon else self._ahead).append(rank)

    def _cut(self, send: Operation, receive: Operation) -> None:
        """An end of a message dies before it is over. The other end learns of it; this one waits for its death."""
        dies = _dies(send, receive)
        for operation, other in ((send, receive), (receive, send)):
            if operation.rank.dies > dies and not operation.done:
                self._lose(operation, other.rank)

    def _fail(self, send: Operation, receive: Operation) -> None:
        if self._deaths and _is_too_late(send, receive):
            self._cut(send, receive)
            return
        text = _mismatch(send, receive)
        for operation in (send, receive):
            operation.error = problem = MessageMismatch(text, [send.rank.number, receive.rank.number])
            if not operation.done:
                self._unseen[operation] = problem
                rank = operation.rank
                rank.missing = min(rank.missing, 1)  # an error ends the wait, whatever else is missing
                self._settle(operation)

    def _record(self, send: Operation, receive: Operation, start: float) -> None:
        offered = send.time - self._cost(send)[0] if send.eager else send.time
        self.rows.append(
            (
                send.rank.number,
                receive.rank.number,
                send.tag,
                send.nbytes,
                dtype_name_of(send.tensor),
                tuple(send.tensor.shape),
                offered,
                start,
                receive.end,
                send.round,
                send.site,
                receive.site,
            )
        )

    # ── when something is wrong ──────────────────────────────────────────────────────────────────────────────────

    def states(self) -> dict[int, RankState]:
        """What every rank was doing, for diagnosis."""
        return {rank.number: self._state(rank) for rank in self.ranks}

    def unseen(self) -> list[tuple[int, MessageMismatch]]:
        """The ranks that have finished without waiting for a message that did not fit, and what was wrong with it."""
        return [
            (each.rank.number, problem)
            for each, problem in self._unseen.items()
            if each.rank.finished and not each.rank.dead
        ]

    def unreceived(self) -> list[Operation]:
        """Messages that were sent and never received, though both ends live."""
        sends = [send for waiting in self._sends.values() for send in waiting]
        return [send for send in sends if not send.rank.dead and not self.ranks[send.peer].dead]

    def _state(self, rank: SimulatedRank) -> RankState:
        last_call = LastCall(rank.calls, *rank.last_call) if rank.last_call else None
        if rank.dead:
            return RankState("dead", last_call=last_call)
        if rank.finished:
            return RankState("finished", last_call=last_call)
        place = place_of(rank)
        waits = tuple(_wait(operation, place) for operation in rank.waiting if not operation.done)
        if rank.meeting is not None:
            kind, key, members = rank.meeting
            absent = tuple(member for member in members if member not in self._meetings[key])
            waits = (Wait(kind, absent, False, repr(key), place),)
        return RankState("blocked" if waits else "running", rank.round, waits, last_call=last_call)


def _order(send: Operation, receive: Operation) -> tuple[float, float, int, int]:
    """Deferred messages go through in this order: by when both sides were ready, then offered, then by their turn.

    A rank's messages have their turns as its code begins them. Of equal turns the lower rank's comes first.
    """
    return max(send.time, receive.time), send.time, send.turn, send.rank.number


def _dies(send: Operation, receive: Operation) -> float:
    """The first death that can cut a message. What is eager has left its sender already."""
    return receive.rank.dies if send.eager else min(send.rank.dies, receive.rank.dies)


def _is_too_late(send: Operation, receive: Operation) -> bool:
    """Whether an end is dead by the time at which both ends of a message are ready."""
    return max(send.time, receive.time) >= _dies(send, receive)


def place_of(rank: SimulatedRank) -> str:
    """The student's line at which a rank waits."""
    site = rank.site or site_of_frame(rank.context.frame())
    return site.place if site else "inside the library"


def _wait(operation: Operation, place: str) -> Wait:
    kind = "send" if operation.is_send else "recv"
    members = operation.group.members
    others = tuple(m for m in members if m != operation.rank.number)
    peers = others if operation.peer == ANYONE else (operation.peer,)
    return Wait(kind, peers, operation.peer == ANYONE, _describe(operation.tensor), place, operation.site.call)


def _differ(send: Operation, receive: Operation) -> bool:
    """Whether the two ends of a message don't fit."""
    return (
        send.nbytes != receive.nbytes
        or send.tensor.dtype is not receive.tensor.dtype
        or send.tensor.is_meta is not receive.tensor.is_meta
        or (send.site is not receive.site and _different_calls(send, receive) is not None)
    )


def _different_calls(send: Operation, receive: Operation) -> str | None:
    there, here = send.site, receive.site
    return different_calls(send.rank.number, (there.call, there.place), receive.rank.number, (here.call, here.place))


def _mismatch(send: Operation, receive: Operation) -> str:
    other_call = _different_calls(send, receive)
    if other_call is not None:
        return other_call
    return misfit(_end(send), _end(receive))


def _end(operation: Operation) -> End:
    tensor, rank, site = operation.tensor, operation.rank.number, operation.site
    device, dtype = tensor.device.type, dtype_name_of(tensor)
    return End(rank, _describe(tensor), device, dtype, tensor.numel(), site.place, site.call)


def _describe(tensor: torch.Tensor) -> str:
    return describe_tensor(tensor.shape, dtype_name_of(tensor))


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy the elements of `source` into `target`; autograd does not see it."""
    if _is_grad_enabled() and (source.requires_grad or target.requires_grad):
        source, target = source.detach(), target.detach()
    try:
        target.copy_(source)
    except NotImplementedError:  # a dtype that torch only stores, such as uint4
        from_bytes(to_bytes(source), target)
    except RuntimeError:  # as many elements, in another shape; or the buffer of a rank that is in inference mode
        with torch.inference_mode(target.is_inference()):
            target.copy_(source.reshape(target.shape))
