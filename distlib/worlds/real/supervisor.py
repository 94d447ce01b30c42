"""One run of a function on all ranks, watched from the notebook until every rank has reported.

The kernel never blocks on a single rank: it waits for whatever comes first, a report, a printed line, an interrupt, or
the time for another look at the status board.

    send the function out ──► watch ──► stop those that have not reported ──► collect the messages ──► results
                                └─ an exception, a deadlock, a lost rank, too much output, too late: one error
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol

from distlib.trace import CallSite, Message, Trace
from distlib.worlds import call_site, pickling
from distlib.worlds.deaths import all_lost, died_at
from distlib.worlds.diagnosis import (
    DeadlockError,
    Failure,
    LastCall,
    PeerLost,
    RankError,
    RankState,
    ResultError,
    RunInterrupted,
    RunTimeout,
    TooMuchOutput,
    Wait,
    explain_deadlock,
    explain_failures,
    explain_unreceived,
    find_deadlocked,
    how_it_ended,
    name_ranks,
    place,
)
from distlib.worlds.exception_text import text_of
from distlib.worlds.odd_pairs import tell_odd_pair
from distlib.worlds.real.journal import read_journal
from distlib.worlds.real.output_relay import OnOutput, OutputRelay
from distlib.worlds.real.status_board import BLOCKED, Status, StatusBoard

_LOOK_EVERY = 0.05  # seconds between looks at the status board; two equal looks find a deadlock
_GRACE = 0.15  # seconds for other ranks to report the same exception
_LATE = 3.0  # seconds likewise, and for joining a deadlock, for ranks that still run: they may have waited for a core
_STOP_PATIENCE = 1.0  # seconds for a rank to leave a run when asked, before it is killed
_EXIT_PATIENCE = 5.0  # seconds to learn how a rank ended that has closed its command pipe
_SETTLE = 5.0  # seconds for messages that are on their way when all functions have returned
_TOLD = 4  # places that are named when a run is cut off
_INTERRUPT = object()


@dataclass(frozen=True)
class RunSettings:
    """How a function is run.

    Attributes:
        number: counts the runs of a world.
        timeout: seconds, or None.
        record, seed, output_limit, on_output, deaths: see `World`.
        begins: where the function begins, if it is the student's.
        news: what the ranks are told of the notebook (see notebook_state); None for those that know as much themselves.
    """

    number: int
    timeout: float | None
    record: bool
    seed: int
    output_limit: int
    on_output: OnOutput
    deaths: Mapping[int, float] | None = None
    news: bytes | None = None
    begins: CallSite | None = None


class Ranks(Protocol):
    """The ranks of a run, as its supervisor needs them: a `RankPool`, or processes that something else has started."""

    world_size: int
    directory: str
    board: StatusBoard
    commands: list[Connection]
    outputs: list[tuple[int, str, int]]

    def send(self, rank: int, *command: Any) -> None: ...

    def receive(self, rank: int) -> tuple[Any, ...]: ...

    def stop(self, ranks: Iterable[int]) -> None: ...

    def kill(self, ranks: Iterable[int] | None = None) -> None: ...

    def announce_death(self, dead: int, rank: int, run: int) -> bool: ...

    def native_stack(self, rank: int) -> str: ...

    def last_stack(self, rank: int) -> str: ...

    def exit_status(self, rank: int, patience: float = 0.0) -> int | None: ...


class Supervisor:
    """One call of `World.run`, from sending the function to collecting the results.

    The kernel never blocks on a single rank: it waits for whatever comes first, a report, a printed line, or the time
    for another look at the status board.
    """

    def __init__(self, pool: Ranks, settings: RunSettings, blob: bytes) -> None:
        self.pool = pool
        self.settings = settings
        self.blob = blob
        self.usable = True  # whether the ranks can be used for another run
        self.trace = Trace(pool.world_size, [])
        self._start = time.perf_counter()
        self._relays = [OutputRelay(*output, settings.on_output) for output in pool.outputs]
        self._waiting = set(range(pool.world_size))
        self._results: dict[int, bytes] = {}
        self._failures: list[Failure] = []
        self._stopped: list[Failure] = []
        self._lost: list[int] = []
        self._to_die = dict(settings.deaths or {})
        self._killed: set[int] = set()  # as the world's `deaths` ask for
        self._dead: dict[int, float] = {}  # those whose death the run survives, and when, in seconds after its start
        self._news: list[tuple[int, int]] = []  # the deaths that are yet to be announced: the dead rank, to whom
        self._printed = 0
        self._interrupted = False

    def run(self) -> list[Any]:
        """Call the function on all ranks. See `World.run`."""
        with selectors.DefaultSelector() as self._selector, self._interrupts_as_events():
            try:
                self._send_out()
                error = self._watch()
                self._stop_the_others()
                error = self._end(error)
            except BaseException:
                self._abandon()
                raise
        if self._interrupted:  # since the last rank has reported
            raise RunInterrupted(f"{error or 'The run was just over.'} The world can be used again.") from error
        if error is not None:
            tell_odd_pair(error, self.trace)
            raise error
        return self._unpack()

    def _abandon(self) -> None:
        """The kernel was interrupted, or `on_output` failed: stop all ranks, and leave them ready for the next run."""
        for relay in self._relays:
            relay.mute()
        try:
            self._stop_the_others()
            self._end(RankError("the run was given up"))
        except BaseException:
            self.pool.kill()
            self.usable = False
            raise

    @contextlib.contextmanager
    def _interrupts_as_events(self) -> Iterator[None]:
        """Note an interrupt and turn it into an event, so that it never cuts a message to or from a rank in half.

        Only the main thread gets interrupts; elsewhere this does nothing. One interrupt is enough: a second one, while
        the ranks are being stopped, has no effect.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wake, waker = socket.socketpair()
        self._selector.register(wake, selectors.EVENT_READ, _INTERRUPT)

        def interrupt(number: int, frame: types.FrameType | None) -> None:
            self._interrupted = True
            waker.send(b"!")

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            wake.close()
            waker.close()

    # ── while it runs ────────────────────────────────────────────────────────────────────────────────────────────

    def _send_out(self) -> None:
        settings: dict[str, Any] = {
            "start": self._start,
            "record": self.settings.record,
            "survives": self.settings.deaths is not None,
            "seed": self.settings.seed,
            "path": list(sys.path),
            "folder": call_site.working_folder(),
            "cells": call_site.learn_cells(),
            "news": self.settings.news,
        }
        for rank in range(self.pool.world_size):
            with contextlib.suppress(ConnectionError):  # a rank that is gone is noticed when its report is missing
                self.pool.send(rank, "run", self.settings.number, settings, self.blob)
            self._selector.register(self.pool.commands[rank], selectors.EVENT_READ, rank)
        for relay in self._relays:
            self._selector.register(relay.fd, selectors.EVENT_READ, relay)

    def _watch(self) -> RankError | None:
        """Wait until every rank has reported, or something has gone wrong."""
        give_up = self._start + self.settings.timeout if self.settings.timeout is not None else float("inf")
        next_look = stuck_since = self._start + _LOOK_EVERY
        before: dict[int, bytes] = {}
        while self._waiting:
            now = time.perf_counter()
            next_death = self._start + min(self._to_die.values(), default=float("inf"))
            self._handle_events(max(0.0, min(next_look, give_up, next_death) - now))
            self._bring_death()
            if self._failures or self._lost:
                self._wait_for_more()
                return self._explain_loss() if self._lost else explain_failures(self._in_order(self._failures))
            if self._printed > self.settings.output_limit:
                return self._explain_output()
            if self._interrupted:
                raise RunInterrupted(self._explain_interrupt())
            now = time.perf_counter()
            if now >= give_up:
                return self._explain_timeout()
            if now >= next_look:
                snapshot = self.pool.board.snapshot()
                stuck = self._deadlocked(snapshot)
                stuck_since = stuck_since if stuck else now
                if stuck and stuck == before and (now - stuck_since >= _LATE or not self._some_go_on(snapshot)):
                    return self._explain_deadlock(snapshot, list(stuck))
                next_look, before = now + _LOOK_EVERY, stuck
        return None

    def _handle_events(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            if key.data is _INTERRUPT:
                self._selector.unregister(key.fd)
            elif isinstance(key.data, OutputRelay):
                self._relay(key.data)
            elif key.data in self._waiting:
                self._take_report(key.data)
            elif self.settings.deaths is not None:  # it has reported, so all that can come is the end of its pipe
                self._bury(key.data)

    def _relay(self, relay: OutputRelay) -> None:
        count = relay.read(self.settings.output_limit - self._printed)
        if count == 0 and self._waiting:
            with contextlib.suppress(KeyError):
                self._selector.unregister(relay.fd)  # the rank has closed its end
        self._printed += count

    def _take_report(self, rank: int) -> None:
        self._waiting.discard(rank)
        try:
            _, number, outcome, value = self.pool.receive(rank)
        except (EOFError, OSError):
            if self.settings.deaths is not None:
                self._bury(rank)
                return
            self._lost.append(rank)
            self._selector.unregister(self.pool.commands[rank])
            return
        assert number == self.settings.number
        if outcome == "result":
            self._results[rank] = value
        elif outcome == "failure":
            self._failures.append(value)
        else:
            self._stopped.append(value)

    def _wait_for_more(self) -> None:
        """Often all ranks make the same mistake: give those that are about to report it a moment.

        The moment is longer while a rank still runs, so that the report is the same on a busy machine.
        """
        start = time.perf_counter()
        while self._waiting:
            spent = time.perf_counter() - start
            if spent >= _LATE or (spent >= _GRACE and not self._some_go_on(self.pool.board.snapshot())):
                return
            self._handle_events(_GRACE - spent if spent < _GRACE else _LOOK_EVERY)

    def _some_go_on(self, snapshot: bytes) -> bool:
        """Whether a rank that has not reported is on its way: it is not blocked, or has something to read."""
        statuses, arriving = self.pool.board.statuses(snapshot), self.pool.board.on_their_way(snapshot)
        return any(statuses[rank][0] != BLOCKED or rank in arriving for rank in self._waiting)

    # ── deaths that the run survives ─────────────────────────────────────────────────────────────────────────────

    def _bring_death(self) -> None:
        """Kill the ranks whose time has come, unless they have reported, and announce those who have died."""
        now = time.perf_counter() - self._start
        due = [rank for rank, dies in self._to_die.items() if dies <= now]
        for rank in due:
            del self._to_die[rank]
        self._killed |= self._waiting.intersection(due)
        if self._killed - self._dead.keys():
            self.pool.kill(self._killed - self._dead.keys())
        self._announce_deaths()

    def _bury(self, rank: int) -> None:
        """A rank has died: the others are to learn of it."""
        self._selector.unregister(self.pool.commands[rank])
        self._dead[rank] = time.perf_counter() - self._start
        for other in set(range(self.pool.world_size)) - self._dead.keys():
            self.pool.board.count_posted(rank, other)
            self._news.append((rank, other))
        self._announce_deaths()

    def _announce_deaths(self) -> None:
        """Tell the living, except those whose inbox is full: they are told when they have read."""
        self._news = [news for news in self._news if not self.pool.announce_death(*news, self.settings.number)]

    def _explain_death(self, rank: int) -> PeerLost:
        if rank in self._killed:
            return died_at(rank, self._dead[rank])
        return died_at(rank, self._dead[rank], f": {how_it_ended(self.pool.exit_status(rank, _EXIT_PATIENCE))}")

    # ── what went wrong ──────────────────────────────────────────────────────────────────────────────────────────

    def _deadlocked(self, snapshot: bytes) -> dict[int, bytes]:
        """The ranks that can never go on, each with its status as it stands on the board, to see whether it changes."""
        board = self.pool.board
        about_to_die = self._waiting & (self._to_die.keys() | self._killed)  # a death wakes those that wait for it
        going_on = (board.on_their_way(snapshot) - self._dead.keys()) | about_to_die
        stuck = find_deadlocked(self._states(snapshot), going_on)
        return {rank: board.slot(snapshot, rank) for rank in stuck}

    def _states(self, snapshot: bytes) -> dict[int, RankState]:
        statuses = self.pool.board.statuses(snapshot)
        states = {rank: _rank_state(status, statuses) for rank, status in enumerate(statuses)}
        return {rank: RankState("dead") if rank in self._dead else state for rank, state in states.items()}

    def _explain_deadlock(self, snapshot: bytes, stuck: list[int]) -> RankError:
        states = self._states(snapshot)
        self._stop_the_others()
        sites = {failure.rank: failure.site for failure in self._stopped}
        return DeadlockError(explain_deadlock(states, stuck), stuck, sites.get(stuck[0]), self._stacks())

    def _explain_timeout(self) -> RankError:
        late = sorted(self._waiting)
        where = self._stop_and_tell_where()
        site = self._first_site()
        return RunTimeout(
            f"{_prefix(site)}not done after {self.settings.timeout:g} s: {where}.", late, site, self._stacks()
        )

    def _explain_interrupt(self) -> str:
        return f"{self._stop_and_tell_where()}. The ranks have been stopped; the world can be used again."

    def _stop_and_tell_where(self) -> str:
        """Stop the ranks that have not reported, and say what each was doing."""
        states = self._states(self.pool.board.snapshot())
        late = sorted(self._waiting)
        self._stop_the_others()
        sites = {failure.rank: failure.site for failure in self._stopped}
        doing: dict[str, list[int]] = {}  # by what they do: the ranks that do the same at the same place
        for rank in late:
            doing.setdefault(_activity(states[rank], place(sites.get(rank))), []).append(rank)
        told = [f"{name_ranks(ranks)} {_of_several(words, ranks)}" for words, ranks in list(doing.items())[:_TOLD]]
        others = sum(len(ranks) for ranks in list(doing.values())[_TOLD:])
        return "; ".join(told) + (f"; and {others} more {'rank' if others == 1 else 'ranks'}" if others else "")

    def _explain_output(self) -> RankError:
        self._stop_the_others()
        site = self._first_site()
        limit = f"{self.settings.output_limit:,}"
        text = (
            f"{_prefix(site)}the ranks printed more than {limit} bytes in one run, so the run was stopped. "
            "Print less often, or make the world with a larger output_limit."
        )
        return TooMuchOutput(text, [failure.rank for failure in self._stopped], site, self._stacks())

    def _explain_loss(self) -> RankError:
        lost = sorted(self._lost)
        rank = lost[0]
        status = self.pool.exit_status(rank, _EXIT_PATIENCE)
        states = self._states(self.pool.board.snapshot())
        self._stop_the_others()
        crashes = {each: self._crash(each) for each in lost}
        self._stopped += [crash for crash in crashes.values() if crash is not None]
        waits, crash = states[rank].waits, crashes[rank]
        doing = f" while it {waits[0].describe().replace('waits', 'waited', 1)} ({waits[0].place})" if waits else ""
        site = crash.site if crash is not None and crash.site is not None else self._first_site()
        waiting_for = [r for r, s in states.items() if any(rank in wait.peers for wait in s.waits) and r not in lost]
        others = f" {name_ranks(waiting_for).capitalize()} waited for it." if waiting_for else ""
        prefix = _prefix(site) if crash is not None or not waits else f"{waits[0].place}: "
        which = f", rank {rank}" if len(lost) > 1 else ""
        told = f"{name_ranks(lost)} ended in the middle of the run{which}{doing}: {how_it_ended(status)}."
        text = f"{prefix}{told}{others}"
        return PeerLost(text, lost, site, self._stacks())

    def _crash(self, rank: int) -> Failure | None:
        """What a rank that is gone has left of itself; None if it was killed without a chance to leave anything."""
        stack = self.pool.last_stack(rank)
        site = call_site.site_of_native_stack(stack)
        return Failure(rank, "Crash", "its process ended", site, stack) if stack else None

    def _first_site(self) -> CallSite | None:
        """The student's line at which the first rank that has one was stopped; else where their function begins."""
        stopped = (failure.site for failure in self._in_order(self._stopped) if failure.site)
        return next(stopped, self.settings.begins)

    def _stacks(self) -> str:
        return "\n".join(f"── rank {f.rank} ──\n{f.stack}" for f in self._in_order([*self._failures, *self._stopped]))

    def _in_order(self, failures: Sequence[Failure]) -> list[Failure]:
        return sorted(failures, key=lambda failure: failure.rank)

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop_the_others(self) -> None:
        """Ask the ranks that have not reported to leave the run; note where one is that does not react, and end it."""
        if not self._waiting:
            return
        with contextlib.suppress(RuntimeError):
            self.pool.stop(self._waiting)
        give_up = time.perf_counter() + _STOP_PATIENCE
        while self._waiting and time.perf_counter() < give_up:
            self._handle_events(give_up - time.perf_counter())
        self._handle_events(0)  # what came while this process itself had to wait for a core
        for rank in sorted(self._waiting):
            stack = self.pool.native_stack(rank)
            site = call_site.site_of_native_stack(stack)
            self._stopped.append(Failure(rank, "Killed", "did not react", site, stack))
            self._lost.append(rank)
        self._waiting.clear()

    def _end(self, error: RankError | None) -> RankError | None:
        """Collect the messages of the run, and leave the ranks ready for the next one, or end them if they can't be."""
        try:
            if self._lost:
                raise EOFError
            if error is None:
                self._let_settle()
            reports = self._ask_all("end", error is None)
            if error is not None:
                self._ask_all("drain")
                self.pool.board.reset()
            cut_off = any(report[4] for report in reports)
        except (EOFError, OSError):
            reports, cut_off = [], True
        self._read_rest()
        self._make_trace(reports)
        if cut_off or self._dead:  # a tensor was half-way through gloo, or a rank is gone: start afresh
            self.pool.kill()
            self.usable = False
        return error or self._unreceived(reports)

    def _let_settle(self) -> None:
        give_up = time.perf_counter() + _SETTLE
        board = self.pool.board
        while board.on_their_way(board.snapshot()) - self._dead.keys() and time.perf_counter() < give_up:
            time.sleep(0.0005)
            self._announce_deaths()

    def _ask_all(self, *command: Any) -> list[tuple[Any, ...]]:
        """The answers of all ranks to a command; for a dead one, what it has left behind."""
        ranks = range(self.pool.world_size)
        for rank in set(ranks) - self._dead.keys():
            self.pool.send(rank, *command)
        return [self._last_will(rank) if rank in self._dead else self.pool.receive(rank) for rank in ranks]

    def _last_will(self, rank: int) -> tuple[Any, ...]:
        return ("ended", *read_journal(self.pool.directory, rank), [], False)

    def _read_rest(self) -> None:
        for relay in self._relays:
            with contextlib.suppress(OSError):
                while relay.read(self.settings.output_limit - self._printed):
                    pass
            relay.finish()

    def _make_trace(self, reports: Sequence[tuple[Any, ...]]) -> None:
        elapsed = time.perf_counter() - self._start
        self.trace = Trace(self.pool.world_size, _join(reports), elapsed)

    def _unreceived(self, reports: Sequence[tuple[Any, ...]]) -> RankError | None:
        left = [(rank, *message) for rank, report in enumerate(reports) for message in report[3]]
        left = [message for message in left if message[1] not in self._dead]
        return explain_unreceived(left) if left else None

    def _unpack(self) -> list[Any]:
        results: list[Any] = []
        if not self._results:
            raise all_lost([self._explain_death(rank) for rank in sorted(self._dead)])
        for rank in range(self.pool.world_size):
            if rank not in self._results:
                results.append(self._explain_death(rank))
                continue
            try:
                results.append(pickling.loads(self._results[rank]))
            except Exception as error:
                text = f"the result of rank {rank} can't be read in the notebook: {text_of(error)}"
                begins = self.settings.begins
                raise ResultError(_prefix(begins) + text, [rank], begins) from error
        return results


# ── statuses ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rank_state(status: Status, statuses: Sequence[Status]) -> RankState:
    state, round_, waits, strangers, last_call = status
    activity = "running" if state == "idle" else state
    call = LastCall(*last_call) if last_call else None
    return RankState(activity, round_, tuple(_wait(wait, statuses) for wait in waits), tuple(strangers), call)


def _wait(wait: tuple[Any, ...], statuses: Sequence[Status]) -> Wait:
    kind, peers, demand, what, where, call = wait
    if demand == "meeting":  # a barrier waits for those who have not come to the same one
        peers = tuple(peer for peer in peers if not any(w[2:4] == ("meeting", what) for w in statuses[peer][2]))
    return Wait(kind, tuple(peers), demand == "any", what, where, call)


def _activity(state: RankState, where: str) -> str:
    if state.activity == "blocked":
        return f"{state.waits[0].describe()} ({state.waits[0].place})"
    return f"was computing{f' at {where}' if where else ' outside your code'}"


def _of_several(activity: str, ranks: Sequence[int]) -> str:
    """What `_activity` says, of one or several ranks: "was computing …" becomes "were computing …"."""
    if len(ranks) == 1:
        return activity
    verb, _, rest = activity.partition(" ")
    plural = {"was": "were", "waits": "wait"}
    return f"{plural[verb]} {rest}"


def _prefix(site: CallSite | None) -> str:
    return f"{place(site)}: " if site else ""


def _join(reports: Sequence[tuple[Any, ...]]) -> list[Message]:
    """Put the sender's and the receiver's half of each message together."""
    received = {(src, seq): (rank, *rest) for rank, report in enumerate(reports) for src, seq, *rest in report[2]}
    messages = []
    for rank, report in enumerate(reports):
        for sequence, _, tag, nbytes, dtype, shape, start, round_, site in report[1]:
            if (rank, sequence) in received:
                dst, taken, end, receive_site = received[rank, sequence]
                messages.append(
                    Message(rank, dst, tag, nbytes, dtype, shape, start, taken, end, round_, site, receive_site)
                )
    return messages
