"""`run_processes`: a demonstration of a framework, as named processes that are all gone when it is over.

    outcomes = run_processes(
        {"chief": Process(coordinate, env={"TF_CONFIG": …}), "worker 0": Process(serve, env=…), "ps 0": …},
        seconds=60, until=["chief"], kill={"worker 0": "step 20"},
    )

    chief    │ step 19 loss 0.31         ◄── what they print, as it happens
    worker 0 │ step 20
    worker 0 │ (killed)                  ◄── by an event, not by a clock

Why not the ranks of a `World`: servers of a framework listen, and they need addresses, environments and time limits of
their own. The processes here are forks of one that has only imported the framework: after its first use a fork would
hang. See `forkservers` and `own_network` for where they live and how they end.
"""

from __future__ import annotations

import os
import pickle
import selectors
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

import cloudpickle

from distlib.frameworks import forkservers, reports
from distlib.frameworks.in_process import Start
from distlib.frameworks.optional import FRAMEWORKS, QUIET, is_there, set_by_imports
from distlib.frameworks.reports import Outcome, ProcessError
from distlib.frameworks.temporary import temporary_folder
from distlib.living_line import waiting
from distlib.trace import CallSite
from distlib.worlds import call_site, code_files
from distlib.worlds.diagnosis import RunInterrupted
from distlib.worlds.forkserver.handle import ProcessEnd, fresh_python
from distlib.worlds.native_stack import STACK_SIGNAL, wait_for_stacks
from distlib.worlds.real.output_relay import OutputRelay, mark_lines

OnOutput = Callable[[str, str], None]
_OUTPUT_LIMIT = 1_000_000  # bytes that one process may print; the rest is left out
_STACK_PATIENCE = 0.5  # seconds for processes to write where they are
_END_PATIENCE = 1.0  # seconds for reports of processes that were killed
_PROGRAM = "from distlib.frameworks.in_process import main; main(*map(int, sys.argv[1:]))"
_OF_TORCH = (
    *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "GLOO_SOCKET_IFNAME"),
    *("TORCH_DISTRIBUTED_DEBUG", "TORCH_FR_BUFFER_SIZE", "TORCHELASTIC_ERROR_FILE"),
)
_LATE = ("TF_CONFIG", "TMPDIR", *_OF_TORCH)  # what is not read before a framework is used
_MOST_NAMED = 3  # processes, in the line that says what is waited for
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")


class Process:
    """What one process is to do: call `function(*args, **kwargs)`.

    Args:
        function: also one defined in a cell. It and its arguments are copied to the process.
        env: environment variables, on top of the kernel's and before anything is imported.
        fresh: start a fresh Python, which imports everything itself, also the frameworks that the notebook has
            imported: to see what happens in the import.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        env: Mapping[str, str] | None = None,
        fresh: bool = False,
        **kwargs: Any,
    ) -> None:
        self.function: Any = function
        self.fresh = fresh
        self.args, self.kwargs = args, kwargs
        self.env: dict[str, Any] = dict(env or {})


def prepare_processes(*frameworks: str, env: Mapping[str, str] | None = None) -> None:
    """Begin to import frameworks for processes to come, in the background. Returns at once.

    Without it, the first `run_processes` begins to, and waits. Before the notebook's own import, which takes as long,
    it costs no time where there is a second core. The notebook should import with `require`, which notes what a
    framework sets in the environment: that makes no difference then.

    Args:
        frameworks: their names, "tensorflow", "tf_keras", "jax". Those that are not installed are left out.
        env: what the processes have in their own `env`, as far as it matters in the import.
    """
    there = [name for name in frameworks if is_there(name)]
    if there:
        forkservers.prepare(_of_fork_server(Process(print, env=env)), there)


def run_processes(
    processes: Mapping[str, Process],
    *,
    seconds: float,
    until: Sequence[str] | None = None,
    kill: Mapping[str, str | tuple[str, str]] | None = None,
    check: bool | None = None,
    on_output: OnOutput | None = None,
    imports: Sequence[str] | None = None,
) -> dict[str, Outcome]:
    """Run functions in new processes, show what they print, and leave none of the processes behind.

    A framework that the notebook has imported is there already when a process begins. What processes write to the
    folder for temporary files is removed when they are gone: TensorFlow writes some, and a killed process leaves them.

    Args:
        processes: by name, at least one.
        seconds: for all of it; then all are ended.
        until: when these have ended, the others are ended, too: servers that never return. None: wait for all.
        kill: which processes to kill (SIGKILL), and when: as soon as it prints a line that contains this text, or,
            for a pair (name, text), as soon as that process does.
        check: raise an error as soon as a process fails, and end the others. If False, an error is shown among the
            output, stands in the outcome, and the others go on. None: True, unless processes are killed.
        on_output: called with (name, line) instead of printing each line.
        imports: modules that are there when a process begins, such as "torch.distributed". None: the frameworks that
            the notebook has imported.

    Returns:
        What became of each process, by name.

    Raises:
        ValueError, TypeError: an argument is not as described, or a function can't be sent to a process.
        ProcessError: a process raised an exception, died (ProcessDied) or was late (ProcessTimeout), and `check`; or
            a process that was to be killed never met the condition for it.
        KeyboardInterrupt: the kernel was interrupted. The message says where each process was.
    """
    _check(processes, seconds, until, kill)
    kills = {name: when if isinstance(when, tuple) else (name, when) for name, when in (kill or {}).items()}
    checking = not kills if check is None else check
    run = _Run(processes, seconds, list(until or processes), kills, checking, on_output or _printer(processes))
    names = ", ".join(processes) if len(processes) <= _MOST_NAMED else f"{len(processes)} processes"
    with waiting(f"{names} to end", seconds, is_printing=True):
        return run.outcomes([name for name in FRAMEWORKS if name in sys.modules] if imports is None else imports)


# ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Run:
    """One demonstration, watched from the kernel: what is printed, who ends, how much time is left."""

    def __init__(
        self,
        processes: Mapping[str, Process],
        seconds: float,
        until: Sequence[str],
        kills: dict[str, tuple[str, str]],
        check: bool,
        on_output: OnOutput,
    ) -> None:
        self._names = list(processes)
        self._seconds, self._until, self._kills = seconds, until, kills
        self._check, self._on_output = check, on_output
        self._outcomes = {name: Outcome() for name in processes}
        self._running = set(processes)
        self._killed: set[str] = set()  # as `kill` asks
        self._ended: set[str] = set()  # when the others were done, or late
        self._relays: dict[str, OutputRelay] = {}
        self._room = dict.fromkeys(processes, _OUTPUT_LIMIT)
        self._calls = {name: _call_file(name, process) for name, process in processes.items()}
        self._processes = processes
        self._results = {name: tempfile.TemporaryFile() for name in processes}
        self._stacks = {name: tempfile.TemporaryFile() for name in processes}

    def outcomes(self, imports: Sequence[str]) -> dict[str, Outcome]:
        """Run the processes, which have `imports` when they begin, and return how each has ended."""
        self._began = time.perf_counter()
        forks = [process for process in self._processes.values() if not process.fresh]
        imports = imports if forks else []
        environment = _of_fork_server(*forks[:1])
        try:
            with temporary_folder() as folder, forkservers.borrowed(environment, imports) as self._server:
                self._start(environment, folder)
                return self._until_the_end()
        finally:
            self._close()

    def _start(self, environment: Mapping[str, str], folder: str) -> None:
        """Start the processes: as forks, or afresh if their environment differs from the fork server's.

        Args:
            environment: the fork server's.
            folder: for their temporary files.
        """
        for index, (name, process) in enumerate(self._processes.items()):
            reader, writer = os.pipe()
            self._relays[name] = OutputRelay(index, "stdout", reader, self._take_lines)
            files = [self._calls[name].fileno(), writer, self._results[name].fileno(), self._stacks[name].fileno()]
            own = {"TMPDIR": folder, **_environment(process, len(self._processes))}
            if process.fresh or not _at_import(process).items() <= environment.items():
                start = Start(own, fresh_python(_PROGRAM))
            else:
                start = Start(dict(own.items() - environment.items()))
            self._server.spawn(name, start, files)
            os.close(writer)

    def _until_the_end(self) -> dict[str, Outcome]:
        try:
            error = self._watch()
            self._end_all()
            error = error or self._missed_kill()
        except KeyboardInterrupt:
            raise RunInterrupted(self._where_all_are()) from None
        if error is not None:
            error.outcomes = self._outcomes
            raise error
        return self._outcomes

    def _close(self) -> None:
        for relay in self._relays.values():
            os.close(relay.fd)
        for file in (*self._calls.values(), *self._results.values(), *self._stacks.values()):
            file.close()

    def _watch(self) -> ProcessError | None:
        """Wait for the end. Returns the error that ended it."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            for name, relay in self._relays.items():
                selector.register(relay.fd, selectors.EVENT_READ, name)
            while self._running.intersection(self._until):
                left = self._began + self._seconds - time.perf_counter()
                if left <= 0:
                    return self._too_late()
                for key, _ in selector.select(left):
                    if key.data is None:
                        error = self._take_report()
                        if error is not None and self._check:
                            return error
                    elif not self._read(key.data):
                        selector.unregister(key.fd)
        return None

    def _read(self, name: str) -> int:
        """Show what a process has printed, as long as it is not too much. Returns how many bytes came."""
        room = self._room[name]
        count = self._relays[name].read(room)
        self._room[name] -= count
        if room > 0 >= self._room[name]:
            self._on_output(name, "(… more was printed and is left out)")
        return count

    def _take_lines(self, index: int, stream: str, text: str) -> None:
        for line in text.splitlines():
            self._show(self._names[index], line)

    def _show(self, name: str, line: str) -> None:
        self._outcomes[name].lines.append(line)
        self._on_output(name, line)
        for victim, (speaker, text) in self._kills.items():
            if speaker == name and text in line and victim not in self._killed:
                self._killed.add(victim)
                self._server.signal([victim], signal.SIGKILL)

    def _take_report(self) -> ProcessError | None:
        """Learn what the fork server tells next. Returns the error of a process that has ended with one."""
        ended = self._server.receive()
        if not isinstance(ended, ProcessEnd):  # the answer to an order
            return None
        name = str(ended.name)
        self._running.discard(name)
        while self._read(name):
            pass
        self._relays[name].finish()
        outcome = self._outcomes[name]
        outcome.exit_status, outcome.peak_bytes = ended.status, ended.peak_bytes
        outcome.seconds = time.perf_counter() - self._began
        self._take_result(name, outcome)
        self._mention(name, outcome)
        return outcome.error

    def _take_result(self, name: str, outcome: Outcome) -> None:
        file = self._results[name]
        file.seek(0)
        try:
            kind, *rest = pickle.load(file)
        except (EOFError, pickle.UnpicklingError):  # it ended before it had written one
            if outcome.exit_status and name not in self._killed | self._ended:
                outcome.error = reports.died(name, outcome.exit_status, _last(outcome))
            return
        if kind == "error":
            outcome.error = reports.raised(name, *rest)
            return
        try:
            outcome.value = cloudpickle.loads(rest[0])
        except Exception as error:
            outcome.error = ProcessError(name, f"what {name} returned can't be read in the notebook: {error}")

    def _mention(self, name: str, outcome: Outcome) -> None:
        """Say among the output how a process ended, unless it returned or its error is about to be raised."""
        if outcome.error and not self._check:
            self._on_output(name, f"({outcome.error})")
        elif name in self._killed | self._ended and outcome.exit_status == -signal.SIGKILL and not outcome.error:
            self._on_output(name, "(killed)" if name in self._killed else "(ended)")

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _end_all(self) -> None:
        """End those that still run, and learn how much memory they had used."""
        self._ended |= self._running
        self._server.signal(list(self._running), signal.SIGKILL)
        give_up = time.perf_counter() + _END_PATIENCE
        with selectors.DefaultSelector() as selector:
            selector.register(self._server, selectors.EVENT_READ)
            while self._running and selector.select(max(0.0, give_up - time.perf_counter())):
                self._take_report()

    def _too_late(self) -> ProcessError | None:
        """Each process that still runs gets an error. Returns the error that names them all."""
        sites = self._sites()
        late = [name for name in self._names if name in self._running]
        for name in late:
            self._outcomes[name].error = reports.late(name, self._seconds, sites[name], _last(self._outcomes[name]))
        errors = [error for name in late if (error := self._outcomes[name].error)]
        return reports.together(errors) if self._check else None

    def _missed_kill(self) -> ProcessError | None:
        missed = [name for name in self._kills if name not in self._killed]
        return reports.never_printed(missed[0], *self._kills[missed[0]]) if missed else None

    def _where_all_are(self) -> str:
        """After an interrupt: where each process was."""
        sites = self._sites()
        told = [f"{name} was {f'at {site.place}' if site else 'running'}" for name, site in sites.items()]
        return f"{'; '.join(told) or 'All had finished'}. All are ended."

    def _sites(self) -> dict[str, CallSite | None]:
        """The student's line that each running process is at; None where it is not known."""
        names = [name for name in self._names if name in self._running]
        self._server.signal(names, STACK_SIGNAL)
        stacks = wait_for_stacks([self._stacks[name].fileno() for name in names], _STACK_PATIENCE)
        return {name: call_site.site_of_native_stack(stack) for name, stack in zip(names, stacks, strict=True)}


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check(
    processes: Any,
    seconds: float,
    until: Sequence[str] | None,
    kill: Mapping[str, str | tuple[str, str]] | None,
) -> None:
    if not isinstance(processes, Mapping) or not processes:
        raise ValueError(f'expected processes by name, such as {{"chief": Process(function)}}, got {processes!r}')
    for name, process in processes.items():
        _check_process(name, process)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"expected seconds above 0, after which all processes are ended, got {seconds!r}")
    if isinstance(until, str):
        raise ValueError(f"expected until as a list of names, got {until!r}: try until=[{until!r}]")
    speakers = [when[0] for when in (kill or {}).values() if isinstance(when, tuple)]
    for argument, names in (("until", until or ()), ("kill", [*(kill or {}), *speakers])):
        for name in names:
            if name not in processes:
                raise ValueError(f"{argument} names {name!r}, and the processes are {', '.join(processes)}")


def _check_process(name: str, process: Any) -> None:
    if not isinstance(process, Process):
        raise TypeError(f"expected a Process for {name!r}, got {process!r}: try Process(function, argument, …)")
    if not callable(process.function):
        raise TypeError(f"expected a function for {name!r}, got {process.function!r}: try Process(function, argument)")
    for variable, value in process.env.items():
        if not isinstance(value, str):
            hint = f": try json.dumps({value!r})" if isinstance(value, dict | list) else ""
            raise TypeError(f"expected text for {variable} in the env of {name!r}, got a {type(value).__name__}{hint}")


def _call_file(name: str, process: Process) -> BinaryIO:
    """A file with what the process is to do.

    Raises:
        TypeError: the function or an argument can't be sent.
    """
    try:
        call = code_files.dumps((process.function, process.args, process.kwargs))
    except Exception as error:
        function = getattr(process.function, "__name__", repr(process.function))
        text = f"{function} or one of its arguments can't be sent to {name} ({error}): make it inside the function"
        raise TypeError(text) from None
    file = tempfile.TemporaryFile()
    pickle.dump({"folder": call_site.working_folder(), "cells": dict(call_site.learn_cells()), "call": call}, file)
    file.seek(0)
    return file


def _environment(process: Process, count: int) -> dict[str, str]:
    """The kernel's environment, quiet, with a share of the cores; what the kernel or the process sets comes first.

    Without proxies: gRPC would ask them for the way to 127.0.0.1. Without what the kernel's imports have set, as
    theirs will: a fork server may have begun before these.
    """
    threads = str(max(1, (os.cpu_count() or 1) // count))
    given = dict(os.environ.items() - set_by_imports.items())
    inherited = {name: value for name, value in given.items() if not name.lower().endswith("_proxy")}
    inherited.pop("TMPDIR", None)
    return {**QUIET, **dict.fromkeys(_THREADS, threads), **inherited, **process.env}


def _of_fork_server(*first: Process) -> dict[str, str]:
    """The environment of a fork server. first: its first process that is a fork, if there is one."""
    return dict.fromkeys(_THREADS, "1") | _at_import(*first)


def _at_import(process: Process | None = None) -> dict[str, str]:
    """The part of a process's environment, or of the kernel's, that may matter when a framework is imported.

    Without numbers of threads that nobody has set: frameworks read them later, and one thread is right for numpy.
    """
    process = process or Process(print)
    left_out = {*_LATE, *_THREADS} - {name for name in _THREADS if name in os.environ or name in process.env}
    return {name: value for name, value in _environment(process, 1).items() if name not in left_out}


def _printer(names: Mapping[str, Process]) -> OnOutput:
    width = max(len(name) for name in names)

    def show(name: str, line: str) -> None:
        print(mark_lines(f"{line}\n", f"{name:<{width}} │ "), end="", flush=sys.stdout.isatty())

    return show


def _last(outcome: Outcome) -> str:
    return next((line for line in reversed(outcome.lines) if line.strip()), "")
