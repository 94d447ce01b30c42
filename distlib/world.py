"""`World`: real ranks behind a notebook. Each is a process of its own, kept warm between runs.

    world = World(4)
    world.run(fn, x)         rank 0: fn(comm, x)   rank 1: fn(comm, x)   rank 2: fn(comm, x)   rank 3: fn(comm, x)
                             ─────────────────────────► [result 0, result 1, result 2, result 3]

The function travels to the ranks by value (cloudpickle), so it may be defined in a cell, and it may change between
runs. While it runs, the kernel passes on what the ranks print and watches over them: an exception, a deadlock, a rank
that is gone or a time limit ends the run on all ranks with one error, and the next run finds the ranks ready again.
"""

from __future__ import annotations

import contextlib
import operator
import os
import selectors
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cloudpickle
import torch

from distlib import call_site, forkserver
from distlib.diagnosis import (
    DeadlockError,
    Failure,
    PeerLost,
    RankError,
    RankState,
    ResultError,
    RunTimeout,
    TooMuchOutput,
    UnreceivedMessage,
    Wait,
    explain_deadlock,
    explain_failures,
    find_deadlocked,
    name_ranks,
    place,
)
from distlib.output_relay import OnOutput, OutputRelay, print_output
from distlib.rank_pool import RankPool
from distlib.status_board import Status
from distlib.trace import Message, Trace

BACKENDS = ("gloo", "nccl")
_LOOK_EVERY = 0.05  # seconds between looks at the status board; two equal looks find a deadlock
_GRACE = 0.15  # seconds for other ranks to report the same exception
_STOP_PATIENCE = 0.5  # seconds for a rank to leave a run when asked, before it is killed
_SETTLE = 1.0  # seconds for messages that are on their way when all functions have returned


class World:
    """A number of ranks that run functions together.

    Args:
        world_size: how many ranks, at least 1. There may be more than the machine has cores.
        backend: how large tensors travel: "gloo" (CPU), "nccl" (a GPU for each rank), or None for NCCL if there are
            enough GPUs and else gloo.
        record: whether to keep a `trace` of the messages.
        seed: each run starts with the random numbers of rank r seeded with `seed + r` (random, numpy, torch).
        output_limit: how many bytes the ranks of one run may print; more is an error.
        on_output: called with (rank, "stdout" or "stderr", text) for each printed line, instead of printing it.

    The ranks start at the first `run`. They end with the world, with the kernel, or with `close`.

    Raises:
        ValueError: a world size that is not a number of at least 1, an unknown backend, or too few GPUs for NCCL.
    """

    def __init__(
        self,
        world_size: int,
        backend: str | None = None,
        *,
        record: bool = True,
        seed: int = 0,
        output_limit: int = 1_000_000,
        on_output: OnOutput | None = None,
    ) -> None:
        self.world_size = _check_world_size(world_size)
        self.backend = _choose_backend(backend, self.world_size)
        self.record = record
        self.seed = seed
        self.output_limit = output_limit
        self.on_output = on_output
        self.trace = Trace(self.world_size, [])
        self.last_error: RankError | None = None
        self._pool: RankPool | None = None
        self._let_go: weakref.finalize[[], World] | None = None
        self._runs = 0
        self._lock = threading.Lock()
        forkserver.current()  # gets ready in the background

    def run(self, fn: Callable[..., Any], /, *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `fn(comm, *args, **kwargs)` on every rank and return the results, indexed by rank.

        Args:
            fn: any function, also one defined in a cell, a lambda, a closure, a method. Its arguments, and the
                variables it uses, are copied to each rank; what a rank changes, it changes for itself. If it is a
                generator, the result is the list of what it yields.
            timeout: seconds after which the run is stopped; None for no limit.

        Raises:
            TypeError: `fn` is not callable, or it or an argument can't be sent to another process.
            RankError: something went wrong on a rank; see diagnosis for its kinds. The world can be used again.
            KeyboardInterrupt: the kernel was interrupted. The ranks have stopped; the world can be used again.
        """
        blob = _pack(fn, args, kwargs)
        if not self._lock.acquire(blocking=False):
            raise RuntimeError("this world is already running a function: wait for it, or make another World")
        try:
            self.last_error = None
            run = _Run(self, self._ready_pool(), blob, timeout)
            return run.supervise()
        except RankError as error:
            self.last_error = error
            raise error.with_traceback(None) from None
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the ranks. A later `run` starts new ones."""
        if self._let_go is not None:
            self._let_go()
        self._pool = self._let_go = None

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "not started" if self._pool is None else "ready"
        return f"<World: {self.world_size} rank{'s' * (self.world_size > 1)}, {self.backend}, {state}>"

    def __reduce__(self) -> Any:
        raise TypeError("a World can't be sent to its ranks: a rank has comm, which has rank, world_size, send, recv …")

    def _ready_pool(self) -> RankPool:
        if self._pool is not None and not self._pool.alive:
            self.close()
        if self._pool is None:
            pool = RankPool(self.world_size, self.backend)
            self._pool, self._let_go = pool, weakref.finalize(self, pool.close)
        return self._pool


@dataclass
class _Run:
    """One call of `World.run`, from sending the function to collecting the results.

    The kernel never blocks on a single rank: it waits for whatever comes first, a report, a printed line, or the time
    for another look at the status board.
    """

    world: World
    pool: RankPool
    blob: bytes
    timeout: float | None
    results: dict[int, bytes] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    stopped: list[Failure] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    printed: int = 0

    def supervise(self) -> list[Any]:
        """Run the function on all ranks. See `World.run`."""
        self.world._runs += 1
        self.number = self.world._runs
        self.start = time.perf_counter()
        self.selector = selectors.DefaultSelector()
        self.relays = [OutputRelay(*output, self.world.on_output or print_output) for output in self.pool.outputs]
        self.waiting = set(range(self.world.world_size))
        try:
            self._send_out()
            error = self._watch()
            self._stop_the_others()
            error = self._end(error)
        except BaseException:
            self._stop_the_others()
            self._end(RankError("stopped"))
            raise
        finally:
            self.selector.close()
        if error is not None:
            raise error
        return self._unpack()

    # ── while it runs ────────────────────────────────────────────────────────────────────────────────────────────

    def _send_out(self) -> None:
        settings = {
            "start": self.start,
            "record": self.world.record,
            "seed": self.world.seed,
            "path": list(sys.path),
            "folder": _folder(),
            "cells": _cell_numbers(),
        }
        call_site.cell_numbers.update(settings["cells"])
        for rank in range(self.world.world_size):
            with contextlib.suppress(ConnectionError):  # a rank that is gone is noticed when its report is missing
                self.pool.send(rank, "run", self.number, settings, self.blob)
            self.selector.register(self.pool.commands[rank], selectors.EVENT_READ, rank)
        for relay in self.relays:
            self.selector.register(relay.fd, selectors.EVENT_READ, relay)

    def _watch(self) -> RankError | None:
        """Wait until every rank has reported, or something has gone wrong."""
        give_up = self.start + self.timeout if self.timeout is not None else float("inf")
        next_look, before = self.start + _LOOK_EVERY, b""
        while self.waiting:
            now = time.perf_counter()
            self._handle_events(max(0.0, min(next_look, give_up) - now))
            if self.failures or self.lost:
                self._wait_for_more()
                return self._explain_loss() if self.lost else explain_failures(self._in_order(self.failures))
            if self.printed > self.world.output_limit:
                return self._explain_output()
            now = time.perf_counter()
            if now >= give_up:
                return self._explain_timeout()
            if now >= next_look:
                snapshot = self.pool.board.snapshot()
                stuck = self._deadlocked(snapshot) if snapshot == before else []
                if stuck:
                    return self._explain_deadlock(snapshot, stuck)
                next_look, before = now + _LOOK_EVERY, snapshot
        return None

    def _handle_events(self, timeout: float) -> None:
        for key, _ in self.selector.select(timeout):
            if isinstance(key.data, OutputRelay):
                self._relay(key.data)
            elif key.data in self.waiting:
                self._take_report(key.data)

    def _relay(self, relay: OutputRelay) -> None:
        count = relay.read(self.world.output_limit - self.printed)
        if count == 0 and self.waiting:
            with contextlib.suppress(KeyError):
                self.selector.unregister(relay.fd)  # the rank has closed its end
        self.printed += count

    def _take_report(self, rank: int) -> None:
        self.waiting.discard(rank)
        try:
            _, number, outcome, value = self.pool.receive(rank)
        except (EOFError, OSError):
            self.lost.append(rank)
            self.selector.unregister(self.pool.commands[rank])
            return
        assert number == self.number
        if outcome == "result":
            self.results[rank] = value
        elif outcome == "failure":
            self.failures.append(value)
        else:
            self.stopped.append(value)

    def _wait_for_more(self) -> None:
        """Often all ranks make the same mistake: give those that are about to report it a moment."""
        give_up = time.perf_counter() + _GRACE
        while self.waiting and time.perf_counter() < give_up:
            self._handle_events(give_up - time.perf_counter())

    # ── what went wrong ──────────────────────────────────────────────────────────────────────────────────────────

    def _deadlocked(self, snapshot: bytes) -> list[int]:
        return find_deadlocked(self._states(snapshot), self.pool.board.on_their_way(snapshot))

    def _states(self, snapshot: bytes) -> dict[int, RankState]:
        statuses = self.pool.board.statuses(snapshot)
        return {rank: _rank_state(rank, status, statuses) for rank, status in enumerate(statuses)}

    def _explain_deadlock(self, snapshot: bytes, stuck: list[int]) -> RankError:
        states = self._states(snapshot)
        self._stop_the_others()
        sites = {failure.rank: failure.site for failure in self.stopped}
        return DeadlockError(explain_deadlock(states, stuck), stuck, sites.get(stuck[0]), self._stacks())

    def _explain_timeout(self) -> RankError:
        states = self._states(self.pool.board.snapshot())
        late = sorted(self.waiting)
        self._stop_the_others()
        sites = {failure.rank: failure.site for failure in self.stopped}
        told = [f"rank {rank} {_activity(states[rank], place(sites.get(rank)))}" for rank in late[:4]]
        more = f"; and {len(late) - 4} more ranks" if len(late) > 4 else ""
        first = next((sites[rank] for rank in late if sites.get(rank)), None)
        prefix = f"{place(first)}: " if first else ""
        text = f"{prefix}not done after {self.timeout:g} seconds: {'; '.join(told)}{more}."
        return RunTimeout(text, late, first, self._stacks())

    def _explain_output(self) -> RankError:
        self._stop_the_others()
        site = next((failure.site for failure in self.stopped if failure.site), None)
        prefix = f"{place(site)}: " if site else ""
        limit = f"{self.world.output_limit:,}"
        text = (
            f"{prefix}the ranks printed more than {limit} bytes in one run, so the run was stopped. "
            "Print less often, or make the world with a larger output_limit."
        )
        return TooMuchOutput(text, [failure.rank for failure in self.stopped], site, self._stacks())

    def _explain_loss(self) -> RankError:
        lost = sorted(self.lost)
        rank = lost[0]
        status = self.pool.exit_status(rank, patience=1.0)
        states = self._states(self.pool.board.snapshot())
        self._stop_the_others()
        waits = states[rank].waits
        doing = f" while it {waits[0].describe().replace('waits', 'waited', 1)} ({waits[0].place})" if waits else ""
        waiting_for = [r for r, s in states.items() if any(rank in wait.peers for wait in s.waits) and r not in lost]
        others = f" {name_ranks(waiting_for).capitalize()} waited for it." if waiting_for else ""
        prefix = f"{waits[0].place}: " if waits else _first_place(self.stopped)
        text = f"{prefix}{name_ranks(lost)} ended in the middle of the run{doing}: {_how_it_ended(status)}.{others}"
        return PeerLost(text, lost, next((f.site for f in self.stopped if f.site), None), self._stacks())

    def _stacks(self) -> str:
        return "\n".join(f"── rank {f.rank} ──\n{f.stack}" for f in self._in_order([*self.failures, *self.stopped]))

    def _in_order(self, failures: Sequence[Failure]) -> list[Failure]:
        return sorted(failures, key=lambda failure: failure.rank)

    # ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _stop_the_others(self) -> None:
        """Ask the ranks that have not reported to leave the run; one that does not react tells where it is and ends."""
        if not self.waiting:
            return
        with contextlib.suppress(RuntimeError):
            self.pool.stop(self.waiting)
        give_up = time.perf_counter() + _STOP_PATIENCE
        while self.waiting and time.perf_counter() < give_up:
            self._handle_events(give_up - time.perf_counter())
        for rank in sorted(self.waiting):
            stack = self.pool.native_stack(rank)
            self.stopped.append(Failure(rank, "Killed", "did not react", None, stack))
            self.lost.append(rank)
        self.waiting.clear()

    def _end(self, error: RankError | None) -> RankError | None:
        """Collect the messages of the run, and leave the ranks ready for the next one, or end them if they can't be."""
        try:
            if self.lost:
                raise EOFError
            if error is None:
                self._let_settle()
            reports = self._ask_all("end")
            if error is not None:
                self._ask_all("drain")
                self.pool.board.reset()
            cut_off = any(report[4] for report in reports)
        except (EOFError, OSError):
            reports, cut_off = [], True
        self._read_rest()
        self._make_trace(reports)
        if cut_off:  # a tensor was half-way through gloo, or a rank is gone: start afresh
            self.pool.kill()
            self.world.close()
        return error or self._unreceived(reports)

    def _let_settle(self) -> None:
        give_up = time.perf_counter() + _SETTLE
        while self.pool.board.on_their_way(self.pool.board.snapshot()) and time.perf_counter() < give_up:
            time.sleep(0.0005)

    def _ask_all(self, command: str) -> list[tuple[Any, ...]]:
        ranks = range(self.world.world_size)
        for rank in ranks:
            self.pool.send(rank, command)
        return [self.pool.receive(rank) for rank in ranks]

    def _read_rest(self) -> None:
        for relay in self.relays:
            with contextlib.suppress(OSError):
                while relay.read(self.world.output_limit - self.printed):
                    pass
            relay.finish()

    def _make_trace(self, reports: Sequence[tuple[Any, ...]]) -> None:
        elapsed = time.perf_counter() - self.start
        self.world.trace = Trace(self.world.world_size, _join(reports), elapsed)

    def _unreceived(self, reports: Sequence[tuple[Any, ...]]) -> RankError | None:
        left = [(rank, *message) for rank, report in enumerate(reports) for message in report[3]]
        if not left:
            return None
        rank, dst, tag, what, site = left[0]
        count = f" ({len(left)} messages in all)" if len(left) > 1 else ""
        text = (
            f"{place(site)}: rank {rank} sent {what} to rank {dst} with tag {tag}, and nobody received it{count}. "
            f"Hint: rank {dst} has to call recv once more, or rank {rank} sends once too often. "
            "Call wait() on what isend returns, and you are told at once."
        )
        return UnreceivedMessage(text, sorted({message[0] for message in left}), site)

    def _unpack(self) -> list[Any]:
        results = []
        for rank in range(self.world.world_size):
            try:
                results.append(cloudpickle.loads(self.results[rank]))
            except Exception as error:
                raise ResultError(
                    f"the result of rank {rank} can't be read in the notebook: {error}", [rank]
                ) from error
        return results


# ── small questions ──────────────────────────────────────────────────────────────────────────────────────────────────


def _check_world_size(world_size: int) -> int:
    try:
        size = operator.index(world_size)
    except TypeError:
        raise ValueError(f"World expects a number of ranks, at least 1, got {world_size!r}: try World(4)") from None
    if size < 1:
        raise ValueError(f"World expects at least 1 rank, got {size}: try World(4)")
    return size


def _choose_backend(backend: str | None, world_size: int) -> str:
    gpus = torch.cuda.device_count() if torch.distributed.is_nccl_available() else 0
    if backend is None:
        return "nccl" if gpus >= world_size > 1 else "gloo"
    if backend not in BACKENDS:
        raise ValueError(f"expected one of the backends {', '.join(BACKENDS)}, got {backend!r}")
    if backend == "nccl" and gpus < world_size:
        raise ValueError(
            f'the backend "nccl" needs a GPU for each rank: {world_size} ranks, {gpus} GPUs that NCCL can use. '
            f"Use World({world_size}), which works on the CPU."
        )
    return backend


def _pack(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    if not callable(fn):
        raise TypeError(f"run expects a function of (comm, …), got {type(fn).__name__}: {fn!r}")
    try:
        return cloudpickle.dumps((fn, args, kwargs))
    except Exception as error:
        raise TypeError(_what_cannot_travel(fn, args, kwargs, error)) from None


def _what_cannot_travel(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> str:
    named = [(f"argument {number}", value) for number, value in enumerate(args, 1)]
    named += [(f"argument {name!r}", value) for name, value in kwargs.items()]
    for name, value in named:
        with contextlib.suppress(Exception):
            cloudpickle.dumps(value)
            continue
        return f"{name} of run, a {type(value).__name__}, can't be sent to the ranks: {error}. Make it inside the function."
    name = getattr(fn, "__name__", repr(fn))
    return f"{name} can't be sent to the ranks: it uses something that belongs to this process ({error})."


def _folder() -> str:
    with contextlib.suppress(OSError):
        return os.getcwd()
    return os.sep


def _cell_numbers() -> dict[str, int]:
    """File name → number of the cell, for every cell this notebook has run; empty outside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return dict(getattr(getattr(shell, "compile", None), "_filename_map", {}))


def _rank_state(rank: int, status: Status, statuses: Sequence[Status]) -> RankState:
    state, round_, waits, strangers = status
    activity = "running" if state == "idle" else state
    return RankState(activity, round_, tuple(_wait(wait, statuses) for wait in waits), tuple(strangers))


def _wait(wait: tuple[Any, ...], statuses: Sequence[Status]) -> Wait:
    kind, peers, demand, what, where = wait
    if demand == "meeting":  # a barrier waits for those who have not come to the same one
        peers = tuple(peer for peer in peers if not any(w[2:4] == ("meeting", what) for w in statuses[peer][2]))
    return Wait(kind, tuple(peers), demand == "any", what, where)


def _activity(state: RankState, where: str) -> str:
    if state.activity == "blocked":
        return f"{state.waits[0].describe()} ({state.waits[0].place})"
    return f"was computing{f' at {where}' if where else ', inside a library call that can not be interrupted'}"


def _first_place(failures: Sequence[Failure]) -> str:
    return next((f"{place(failure.site)}: " for failure in failures if failure.site), "")


def _how_it_ended(status: int | None) -> str:
    if status is None:
        return "its process is gone"
    if status == -9:
        return "its process was killed by signal 9 (by hand, or because the machine ran out of memory)"
    if status < 0:
        return f"its process was killed by signal {-status}"
    return f"its process exited with code {status} (os._exit, or a library that gave up)"


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
