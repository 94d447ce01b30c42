"""`SimulatedWorld`: the same rank functions in virtual time, on a cluster of up to thousands of ranks.

    simulated = SimulatedWorld(1024, Cluster(nodes=128, ranks_per_node=8, intra=Link(…), inter=Link(…)))
    simulated.run(fn, x)         as World.run; fn and its tensors are real, only time is not
    simulated.elapsed            virtual seconds until the last rank had finished

Every rank has a clock of its own. Computing costs nothing (unless the rank says `comm.sleep`), a message costs what the
cluster's links say. A rank has one port out and one port in; each carries one message at a time:

    sender offers at s, receiver asks at r        t₀ = max(s, r, out-port free, in-port free)
    both ports are busy                           t₀ … t₀ + m/B
    the message is there, send and recv return    t₀ + m/B + α         m bytes, bandwidth B, latency α

A call started in the background (`comm.start`) has a clock of its own. On the rank's own clock, only computing goes on
meanwhile; the two meet when the rank waits for the call (see `background`).

A message of at most `eager_limit` bytes does not wait for its receiver: it leaves at max(s, out-port free), `send`
returns when the out-port is free again, and it goes through the receiver's in-port when it is received.

Which rank runs next never changes the result. A pair of blocking calls can be timed as soon as both are there, because
neither rank can start anything else meanwhile. Everything that could compete (several `isend`s of one rank, a receive
from anyone, a link shared by a node) waits until no rank can run, and then the one that was ready first goes first: no
rank that is still blocked can start anything earlier. So a run is exact, and the same to the bit on every machine.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Any

import torch

from distlib.arguments import check_callable, check_integer, check_number, check_timeout, described
from distlib.communicator import Communicator, Work
from distlib.communicator_names import not_of_a_world
from distlib.network import Cluster
from distlib.tensor_kinds import check_sendable, is_sendable
from distlib.trace import CallSite, Counts, Message, Trace
from distlib.worlds import call_site, pickling
from distlib.worlds.call_site import find_call_site, is_own_file
from distlib.worlds.deaths import WhileWaiting, all_lost, check_deaths, died_at
from distlib.worlds.diagnosis import (
    DeadlockError,
    Failure,
    Left,
    RankError,
    RunInterrupted,
    RunTimeout,
    explain_deadlock,
    explain_failures,
    explain_unreceived,
    find_deadlocked,
)
from distlib.worlds.exception_text import stack_of, whole_text_of
from distlib.worlds.message_check import check_apart, check_message, check_split, ranks_of_color
from distlib.worlds.not_compiled import leave_to_python
from distlib.worlds.odd_pairs import tell_odd_pair
from distlib.worlds.rank_call import result_of
from distlib.worlds.real.endpoint import Stopped
from distlib.worlds.simulated.background import SimulatedCall
from distlib.worlds.simulated.engine import ANYONE, Engine, Operation, SimulatedGroup, SimulatedRank, unrecorded
from distlib.worlds.simulated.rank_contexts import Context, Ended, GreenletContext, ThreadContext, raise_in
from distlib.worlds.simulated.torch_modes import current_modes, set_modes
from distlib.worlds.tensor_bytes import describe_tensor, dtype_name_of

_PASSES_ON = True  # see worlds.call_site
_STARTS_RANKS = True  # see worlds.call_site

_CONTEXTS: dict[str, Callable[..., Context]] = {"greenlets": GreenletContext, "threads": ThreadContext}


class SimulatedWorld:
    """Ranks in virtual time. The same functions run on it as on a `World`.

    Args:
        world_size: how many ranks, at least 1.
        cluster: its links; None for one node whose ranks all have the same default link. It must have as many places
            for ranks as `world_size`.
        record: whether the trace keeps every message and its line of code, or only the counts. None: up to 64 ranks.
        contexts: "greenlets" (fast), or "threads" for functions that communicate inside `backward`.
        deaths: by rank, the virtual second at which it dies, or `WhileWaiting`; the run goes on without it, and its
            result is a `PeerLost`. The others notice it as worlds.deaths says, without delay. A rank that has returned
            by then, with nothing under way, is left alone. None and {}: nobody dies.

    Each rank works on copies of the arguments, as in a World; results are handed over as they are. Random numbers come
    from the one generator of this process. So are modules, environment variables, default dtype and settings those of
    this process, for all ranks. Each rank begins in the contexts that `run` is called in (`no_grad`, `inference_mode`,
    `torch.device`, `autocast`, context variables), and those that it enters are its own. Tensors on torch's meta device
    have shapes and no contents, for runs that only ask for time and bytes.

    Attributes:
        elapsed: virtual seconds of the last run, until its last rank had finished.
        trace: the messages of the last run (times in virtual seconds).
        last_error: the RankError of the last run, or None.

    Raises:
        ValueError: sizes that do not fit together, unknown contexts, or deaths that are not a mapping from ranks of the
            world to times of at least 0.
    """

    def __init__(
        self,
        world_size: int,
        cluster: Cluster | None = None,
        *,
        record: bool | None = None,
        contexts: str = "greenlets",
        deaths: Mapping[int, float | WhileWaiting] | None = None,
    ) -> None:
        world_size = check_integer("SimulatedWorld", "world_size", world_size, 1)
        _check_cluster(cluster, world_size)
        self.cluster = cluster if cluster is not None else Cluster.flat(world_size)
        if self.cluster.world_size != world_size:
            raise ValueError(f"{world_size} ranks do not fit a cluster with places for {self.cluster.world_size} ranks")
        if not isinstance(contexts, str) or contexts not in _CONTEXTS:
            raise ValueError(f"expected one of the contexts {', '.join(_CONTEXTS)}, got {contexts!r}")
        self.world_size = world_size
        self.record = record if record is not None else world_size <= 64
        self.contexts = contexts
        self.deaths = _checked_deaths(deaths, world_size)
        self.elapsed = 0.0
        self.trace = Trace(world_size, [])
        self.last_error: RankError | None = None

    def run(self, fn: Callable[..., Any], /, *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `fn(comm, *args, **kwargs)` on every rank in virtual time; the results are indexed by rank.

        Args:
            fn, args, kwargs: see `World.run`.
            timeout: real seconds after which the run is stopped; None for no limit. A call of C, such as `time.sleep`,
                is not cut short: the run stops when it returns. With contexts="threads" it waits for it ten seconds.

        Raises:
            TypeError, RankError, KeyboardInterrupt: as `World.run`. A deadlock is found as soon as no rank can go on.
            PeerLost: all ranks have died.
        """
        check_timeout(timeout)
        self.last_error = None
        leave_to_python()
        run = _SimulatedRun(self, pickling.pack_call(fn, args, kwargs), fn)
        try:
            with _time_limit(timeout, run.time_up), _rare_collections():
                return run.run()
        except KeyboardInterrupt:
            raise RunInterrupted(run.explain_interrupt()) from None
        except run.time_up:
            self.last_error = run.explain_timeout(timeout)
        except RunEnded as end:
            self.last_error = end.error
        except RankError as error:
            self.last_error = error
        finally:
            self.elapsed, self.trace = run.elapsed(), run.trace()
        tell_odd_pair(self.last_error, self.trace)
        raise self.last_error.with_traceback(None) from None

    def __repr__(self) -> str:
        return f"<SimulatedWorld: {self.world_size} rank{'s' * (self.world_size > 1)}, {self.cluster}>"

    def __getattr__(self, name: str) -> Any:
        raise not_of_a_world("SimulatedWorld", name, self)

    def __reduce__(self) -> Any:
        raise TypeError("a SimulatedWorld can't be sent to its ranks: a rank has comm, with rank, world_size, send …")


class RaisedElsewhere(Exception):
    """An exception of code in another process, for which a rank function speaks here. Arguments: as of `Failure`."""

    def __init__(self, kind: str, text: str, site: CallSite | None, stack: str) -> None:
        super().__init__(text)
        self.kind, self.site, self.stack = kind, site, stack


class RunEnded(BaseException):
    """Raised by a rank function of ours to end the whole run with `error`."""

    def __init__(self, error: RankError) -> None:
        super().__init__(str(error))
        self.error = error


class _SimulatedRun:
    """One run of a function on all ranks."""

    def __init__(self, world: SimulatedWorld, blob: bytes, function: object) -> None:
        call_site.learn_cells()
        self._begins = call_site.site_of_function(function)
        call_site.forget()
        self._world = world
        self._blob = blob
        self._results: list[Any] = [None] * world.world_size
        self._failures: list[Failure] = []
        self.time_up: type[_TimeUp] = type("_TimeUpOfOneRun", (_TimeUp,), {})  # a run around this one has its own
        self._modes, self._dtype = current_modes(), torch.get_default_dtype()
        make = _CONTEXTS[world.contexts]
        hub, shares_thread = make(), world.contexts == "greenlets"
        self.engine = Engine(world.cluster, world.world_size, hub, shares_thread, world.record, world.deaths)
        group = SimulatedGroup(0, tuple(range(world.world_size)))
        for rank in self.engine.ranks:
            comm = SimulatedCommunicator(self.engine, rank, group, world.cluster)
            rank.context = make(partial(self._call, rank, comm), hub)

    def run(self) -> list[Any]:
        interrupted_by: type[BaseException] | None = None
        try:
            self.engine.run()
            self._raise_what_went_wrong()
            self._report_deaths()
        except (KeyboardInterrupt, _TimeUp) as error:
            interrupted_by = type(error)
            raise
        finally:
            self._end_the_rest(interrupted_by)
            set_modes(self._modes)
            torch.set_default_dtype(self._dtype)
        return self._results

    def elapsed(self) -> float:
        return max(rank.now for rank in self.engine.ranks)

    def trace(self) -> Trace:
        ranks = self.engine.ranks
        counts = Counts(
            [rank.messages_sent for rank in ranks],
            [rank.messages_received for rank in ranks],
            [rank.bytes_sent for rank in ranks],
            [rank.bytes_received for rank in ranks],
            self.engine.rounds,
        )
        return Trace(self._world.world_size, partial(starmap, Message, self.engine.rows), self.elapsed(), counts)

    def explain_timeout(self, timeout: float | None) -> RunTimeout:
        number, site = self._where()
        prefix = f"{site.place}: " if site else ""
        where = f" at {site.place}" if site else ""
        stack = "".join(failure.stack for failure in self._failures)
        text = f"{prefix}not done after {timeout:g} s: rank {number} was computing{where}."
        return RunTimeout(text, [number], site, stack)

    def explain_interrupt(self) -> str:
        number, site = self._where()
        where = f"rank {number} was computing at {site.place}. " if site else ""
        return f"{where}The world can be used again."

    def _where(self) -> tuple[int, CallSite | None]:
        """The rank that was running, and its line, at which it was stopped or still is."""
        running = self.engine.running
        if running is None:
            return 0, self._begins
        if not running.finished:
            return running.number, call_site.site_of_frame(running.context.frame()) or self._begins
        return running.number, next((each.site for each in self._failures if each.rank == running.number), self._begins)

    def _call(self, rank: SimulatedRank, comm: SimulatedCommunicator) -> None:
        """The whole life of one rank."""
        set_modes(self._modes)  # whatever the rank that ran before was in the middle of
        fn: Any = None
        try:
            if rank.dies <= 0:
                self.engine.die(rank)
            fn, args, kwargs = pickling.loads(self._blob)
            result = fn(comm, *args, **kwargs)
            self._results[rank.number] = result_of(result)
            rank.background.wait_for_all()
        except (Ended, RunEnded, Stopped):  # Stopped: this runs on a real rank, which is to leave
            raise
        except BaseException as error:
            self._failures.append(_describe(rank.number, error, fn))
            if isinstance(error, _TimeUp | KeyboardInterrupt):
                raise
        finally:
            rank.finished = True
            self.engine.modes = None

    def _raise_what_went_wrong(self) -> None:
        if self._failures:
            raise explain_failures(sorted(self._failures, key=lambda failure: failure.rank))
        unseen = [_describe(rank, problem) for rank, problem in self.engine.unseen()]
        if unseen:
            raise explain_failures(unseen)
        stuck = [rank.number for rank in self.engine.ranks if not (rank.finished or rank.dead)]
        if stuck:
            states = self.engine.states()
            found = find_deadlocked(states, set())
            assert found == stuck
            site = call_site.site_of_frame(self.engine.ranks[stuck[0]].context.frame())
            raise DeadlockError(explain_deadlock(states, stuck), stuck, site)
        lost = self.engine.unreceived()
        if lost:
            raise explain_unreceived(list(map(_left, lost)))

    def _report_deaths(self) -> None:
        """The result of a dead rank is a PeerLost. Raises one if all are dead."""
        lost = {rank.number: died_at(rank.number, rank.dies) for rank in self.engine.ranks if rank.dead}
        if len(lost) == self._world.world_size:
            raise all_lost(list(lost.values()))
        for number, error in lost.items():
            self._results[number] = error

    def _end_the_rest(self, interrupted_by: type[BaseException] | None) -> None:
        """End the ranks that have not finished. With a thread for each, one may still run: it comes first."""
        self.engine.over = True
        for rank in sorted(self.engine.ranks, key=lambda rank: rank is not self.engine.running):
            if not rank.finished:
                rank.context.kill(interrupted_by)


class SimulatedCommunicator(Communicator):
    """A `Communicator` in virtual time. Made by a `SimulatedWorld` for each rank; see `Communicator`."""

    def __init__(
        self,
        engine: Engine,
        rank: SimulatedRank,
        group: SimulatedGroup,
        cluster: Cluster,
        call: str | None = None,
        called_from: CallSite | None = None,
    ) -> None:
        self._engine = engine
        self.call = call
        self._called_from = None  # the student's line that all messages of one collective call come from
        if called_from is not None and is_own_file(called_from.file):
            self._called_from = called_from.within(call)
        self._unrecorded = unrecorded(call)
        self._rank = rank
        self._group = group
        self._meetings = 0
        self._computations = 0
        self.network = self.cluster = cluster
        self.rank = group.members.index(rank.number) if group.id else rank.number
        self.world_size = len(group.members)
        self.device = _CPU

    def send(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> None:
        operation = self._rank.send
        self._begin(operation, tensor, dst, tag, self._site())
        self._engine.send(operation)
        self._engine.wait(self._rank, (operation,))

    def recv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> int:
        operation = self._rank.receive
        self._begin(operation, tensor, src, tag, self._site())
        self._engine.receive(operation)
        self._engine.wait(self._rank, (operation,))
        return self._group.members.index(operation.peer) if src is None else operator.index(src)

    def isend(self, tensor: torch.Tensor, dst: int, tag: int = 0) -> Work:
        operation = Operation(self._engine, self._rank, is_send=True, blocking=False)
        self._begin(operation, tensor, dst, tag, self._site())
        self._engine.send(operation)
        return operation

    def irecv(self, tensor: torch.Tensor, src: int | None = None, tag: int = 0) -> Work:
        operation = Operation(self._engine, self._rank, is_send=False, blocking=False)
        self._begin(operation, tensor, src, tag, self._site())
        self._engine.receive(operation)
        return operation

    def exchange(self, outgoing: torch.Tensor, dst: int, incoming: torch.Tensor, src: int, tag: int = 0) -> None:
        rank, engine, group = self._rank, self._engine, self._group
        send, receive = both = rank.both
        if self.call is None:
            known = outgoing is send.tensor and incoming is receive.tensor
            self._check(send, outgoing, dst, tag)
            tag = self._check(receive, incoming, src, tag)
            if not known:
                check_apart(outgoing, incoming)
        if rank.background.calls:
            rank.background.wait_for_all()
        site = self._site() if engine.record else self._unrecorded
        send.begin(outgoing, group.members[dst], tag, group, site)
        receive.begin(incoming, ANYONE if src is None else group.members[src], tag, group, site)
        engine.send(send)
        engine.receive(receive)
        engine.wait(rank, both)

    def start(self, function: Callable[..., object], /, *args: Any, **kwargs: Any) -> Work:
        check_callable("start", function, "all_reduce")
        return self.start_at(self._rank.now, partial(function, self, *args, **kwargs))

    def start_at(self, when: float, call: Callable[[], object]) -> Work:
        """As `start`, for a call that could begin at `when`, at the latest now: its rank's code comes to it later."""
        started = SimulatedCall(call, self._rank, self.rank, self._site(), when)
        self._rank.background.start(started)
        return started

    def run_collective(self, function: Callable[[Communicator], object]) -> None:
        engine, rank = self._engine, self._rank
        if rank.context.in_hub:
            function(self)
            return
        spoken_from, rank.site = rank.site, self._site() if engine.record else rank.site
        try:
            engine.run_in_hub(rank, partial(function, self))
        finally:
            rank.site = spoken_from

    def barrier(self) -> None:
        self._meet("barrier", None)

    def everybody(self, name: str) -> Communicator:
        self._meet(name, None)
        group = self._engine.group((self._group.id, self._meetings, 0), self._group.members)
        return SimulatedCommunicator(self._engine, self._rank, group, self.cluster)

    def split(self, color: int | None, key: int | None = None) -> Communicator | None:
        color, key = check_split(color, key)
        everybody = self._meet("split", (color, key))
        if color is None:
            return None
        members = tuple(self._group.members[rank] for rank in ranks_of_color(everybody, color))
        group = self._engine.group((self._group.id, self._meetings, color), members)
        return SimulatedCommunicator(self._engine, self._rank, group, self.cluster)

    def subgroup(self, members: Sequence[int], name: str) -> Communicator:
        group = self._engine.group(
            (self._group.id, "subgroup", name), tuple(self._group.members[rank] for rank in members)
        )
        return SimulatedCommunicator(self._engine, self._rank, group, self.cluster)

    def within(self, call: str) -> Communicator:
        if self.call is not None:
            return self
        site = self._site()
        self._engine.note_call(self._rank, call, site.place)
        called_from = site if self._engine.record else None
        return SimulatedCommunicator(self._engine, self._rank, self._group, self.cluster, call, called_from)

    @property
    def shares_thread(self) -> bool:
        """Whether all ranks run in one thread: see `contexts` of SimulatedWorld."""
        return self._engine.single_threaded

    def speak_from(self, site: CallSite) -> None:
        """Say which line the next calls of this rank come from: it speaks for code that runs in another process."""
        self._rank.site = site

    def sleep(self, seconds: float) -> None:
        check_number("sleep", "seconds", seconds, at_least=0)
        rank = self._rank
        self._computations += 1
        rank.now += seconds * self.cluster.slowdown(rank.number, self._computations)
        if rank.now >= rank.dies:
            self._engine.die(rank)

    def time(self) -> float:
        return self._rank.now

    def __repr__(self) -> str:
        return f"<Communicator: rank {self.rank} of {self.world_size}, simulated>"

    def _begin(self, operation: Operation, tensor: torch.Tensor, peer: int | None, tag: int, site: CallSite) -> None:
        """Check a call and note it. What a collective sends are parts of a tensor that it has checked as a whole."""
        background = self._rank.background
        if background.calls:
            background.wait_for_all()
        if self.call is None:
            tag = self._check(operation, tensor, peer, tag)
        destination = ANYONE if peer is None else self._group.members[peer]
        operation.begin(tensor, destination, tag, self._group, site)

    def _check(self, operation: Operation, tensor: torch.Tensor, peer: int | None, tag: int) -> int:
        """Check what a student sends or receives. The usual case is seen at once; else `check_message` takes a look.

        Returns the tag as an integer of Python.
        """
        usual = (
            type(peer) is int
            and 0 <= peer < self.world_size
            and peer != self.rank
            and type(tag) is int
            and (tensor is operation.tensor or _is_usual(tensor))
        )
        if not usual:
            _, tag = check_message(self, tensor, "send" if operation.is_send else "receive", peer, tag)
        elif not (operation.is_send or tensor.is_contiguous()):
            check_sendable("receive", tensor, written=True)
        return tag

    def _site(self) -> CallSite:
        """The student's line that is talking: all messages of one collective call come from the same one."""
        if not self._engine.record:
            return self._unrecorded
        spoken_from = self._rank.site
        if spoken_from is not None:
            return spoken_from.within(self.call)
        return self._called_from or find_call_site(self.call)

    def _meet(self, kind: str, contribution: Any) -> list[Any]:
        self._rank.background.wait_for_all()
        self._rank.let_go_of_tensors()
        self._meetings += 1
        key = (self._group.id, self._meetings, kind)
        return self._engine.meet_all(self._rank, kind, key, self._group.members, contribution)


_CPU = torch.device("cpu")


def _is_usual(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.Tensor) and is_sendable(tensor) and (tensor.is_cpu or tensor.is_meta)


# ── limits, and what is said ─────────────────────────────────────────────────────────────────────────────────────────


class _TimeUp(BaseException):
    """The real time for a run is over."""


@contextlib.contextmanager
def _rare_collections() -> Iterator[None]:
    """Thousands of ranks are many objects, all in use: looking for unused ones too often is a quarter of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _time_limit(seconds: float | None, time_up: type[_TimeUp]) -> Iterator[None]:
    """Raise `time_up` in this thread when the time is over."""
    if seconds is None:
        yield
        return
    done, thread = threading.Event(), threading.get_ident()

    def watch() -> None:
        if not done.wait(seconds):
            raise_in(thread, time_up)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _checked_deaths(
    deaths: Mapping[int, float | WhileWaiting] | None, world_size: int
) -> dict[int, float | WhileWaiting]:
    """The deaths by rank; those by an event have no time that could be wrong."""
    if not isinstance(deaths, Mapping):
        return {**(check_deaths(deaths, world_size) or {})}
    checked = check_deaths(
        {rank: 0 if isinstance(when, WhileWaiting) else when for rank, when in deaths.items()}, world_size
    )
    by_event = {rank: when for rank, when in deaths.items() if isinstance(when, WhileWaiting)}
    return {**(checked or {}), **by_event}


def _check_cluster(cluster: object, world_size: int) -> None:
    if cluster is not None and not isinstance(cluster, Cluster):
        example = f"SimulatedWorld({world_size}, Cluster.flat({world_size}, Link(latency=1e-6, bandwidth=1e9)))"
        raise ValueError(f"SimulatedWorld expects a Cluster, got {described(cluster)}: try {example}")


def _describe(rank: int, error: BaseException, function: object = None) -> Failure:
    if isinstance(error, RaisedElsewhere):
        return Failure(rank, error.kind, str(error), error.site, error.stack)
    site = call_site.site_of_error(error, function)
    return Failure(rank, type(error).__name__, whole_text_of(error), site, stack_of(error))


def _left(send: Operation) -> Left:
    what = describe_tensor(send.tensor.shape, dtype_name_of(send.tensor))
    return send.rank.number, send.peer, send.tag, what, send.site
