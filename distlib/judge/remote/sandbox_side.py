"""What runs in the sandbox: a fork server, which has torch imported, and all that it forks.

    grader ──"a submission"─────────────► fork server ──fork──► fork server of this submission
    judge ──"a rank, here is its wire"──► fork server of this submission ──fork──► rank, alone: runs cells and calls

Importing torch takes two seconds, forking milliseconds. No fork server runs a line of a student's code; a rank does
nothing else, until its wire ends. What a rank does at the judge's request:

    load    run the student's cells, one statement after the other, and say which one comes next, so that the judge
            knows what to leave out when that was the last; say which of the graded functions there are
    call    call one of these functions with plain values; hand back what it returned
    play    play a case (see distlib.checks.plays) with one of these functions; hand back what that returned
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import gc
import inspect
import io
import itertools
import linecache
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from numbers import Integral, Real
from types import FrameType, ModuleType
from typing import Any, NoReturn

import torch

from distlib.checks.helper_form import HelperForm
from distlib.checks.plays import import_plays, module_of_plays
from distlib.checks.plays.plain_values import changed_inputs, plain
from distlib.checks.student_communicator import Handles, StudentCommunicator
from distlib.judge.remote.helpers_on_a_rank import supplied_helper
from distlib.judge.remote.memory_watch import SECONDS as MEMORY_SECONDS, MemoryWatch, seconds_of
from distlib.judge.remote.orders import NO_STATUS, ORDER_BYTES, TOO_MUCH_MEMORY
from distlib.judge.remote.rank_communicator import RankCommunicator, ask
from distlib.judge.remote.wire import Wire, WireClosed, WireError, decode, encode
from distlib.judge.sandbox import Limits, fork_rank, take_users
from distlib.judge.sandbox.absent import supplied_now
from distlib.judge.sandbox.isolation import SandboxSettings
from distlib.judge.sandbox.limits import CUT, statement_seconds
from distlib.worlds import call_site
from distlib.worlds.exception_text import text_of

_STARTS_RANKS = True  # see worlds.call_site

_MOST_CHARACTERS = 20_000  # of an error's story
_MOST_PRINTED = Limits().output_bytes  # in one job or cell; the judge keeps no more of it
_MOST_PIECES = 1_000  # of a cell; the judge is told of each
_MOST_COLLECTED = 1_000  # characters of print
_SOON, _LATER = 0.1, 0.01  # seconds

Statement = tuple[int, int]  # as in `distlib.judge.remote.student_cells`


def main() -> None:
    """The fork server. Its line to the grader is the file descriptor that the command line names.

    A command has ORDER_BYTES: "+" (fork one for a submission), with a connection to a judge along with it, or "i" and
    a framework (import it, for the submissions to come).
    """
    line = socket.socket(fileno=int(sys.argv[1]))
    torch.set_num_threads(1)
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for one
    for number in itertools.count():
        message, descriptors, _, _ = socket.recv_fds(line, ORDER_BYTES, 1)
        if not message:
            _leave_nobody()
        if message[:1] == b"i":
            _import_framework(message[1:].decode().strip())
            continue
        with socket.socket(fileno=descriptors[0]) as control:
            if os.fork() == 0:
                line.close()
                _serve_submission(number, control)


def _leave_nobody() -> NoReturn:
    """End, after those that serve submissions: each ends with its judge. Else init has to ask for them, in its time."""
    with contextlib.suppress(ChildProcessError):
        os.wait()  # for all, since SIGCHLD is ignored
    os._exit(0)


def _import_framework(name: str) -> None:
    """Import TensorFlow or JAX where nothing can be written.

    TensorFlow asks for the folder of temporary files, which every rank has. Keras asks for matplotlib, if it is there,
    and that wants a folder for what it keeps.
    """
    tempfile.tempdir = os.environ["TMPDIR"]
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # as if it were not there
    import_module(name)
    del sys.modules["matplotlib"]
    gc.freeze()


def _serve_submission(number: int, control: socket.socket) -> NoReturn:
    """The life of a submission's fork server, until its judge closes the connection.

    It says when it is there. A command has ORDER_BYTES: "+", a rank's number, and the rank's wire with it (answer:
    its process), or "-" (end it), "?" (let it say where it is), "w" (answer: how it ended) and a process, "i"
    (import it, for the ranks to come) and a module of plays, or "c" (answer: the microseconds of the processor so far).
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    take_users(number)
    ranks: list[int] = []
    watch = MemoryWatch(SandboxSettings.here().limits.together_bytes)
    with contextlib.suppress(OSError):  # the judge has ended
        control.sendall(b"r")
        while _watched_until_asked(control, ranks, watch) and _obey(control, ranks, watch):
            pass
    _end_all(ranks)


def _watched_until_asked(control: socket.socket, ranks: list[int], watch: MemoryWatch) -> bool:
    """Wait for a command, and watch the ranks meanwhile. True."""
    while not select.select([control], [], [], MEMORY_SECONDS if ranks else None)[0]:
        watch.look(ranks)
    return True


def _obey(control: socket.socket, ranks: list[int], watch: MemoryWatch) -> bool:
    """Do what the next command says. False if there is none."""
    message, descriptors, _, _ = socket.recv_fds(control, ORDER_BYTES, 1)
    command, what = message[:1], message[1:].decode().strip()
    if command == b"+":
        ranks.append(_fork_a_rank(int(what), descriptors[0], control))
        control.sendall(ranks[-1].to_bytes(4, "big"))
    elif command == b"w":
        status = _status_of(int(what), ranks)
        status = TOO_MUCH_MEMORY if int(what) in watch.ended else status
        control.sendall(status.to_bytes(4, "big", signed=True))
    elif command == b"c":
        control.sendall(int(1e6 * seconds_of(ranks)).to_bytes(8, "big"))
    elif command == b"i":
        import_plays(what)
    elif command:
        with contextlib.suppress(OSError):
            os.kill(int(what), signal.SIGKILL if command == b"-" else signal.SIGUSR1)
    return bool(command)


def _fork_a_rank(number: int, descriptor: int, control: socket.socket) -> int:
    """Returns the process to the fork server; in the process itself it does not return."""
    server = os.getpid()
    try:
        child = fork_rank(number, [descriptor])
    except OSError as error:
        if os.getpid() == server:
            raise
        _tell_why(Wire(socket.socket(fileno=descriptor), trusts=True), error)
    if child == 0:
        control.detach()  # it is closed already
        _live(descriptor)
    os.close(descriptor)
    return child


def _tell_why(wire: Wire, error: OSError) -> NoReturn:
    """Answer the first question with the reason why there is no rank."""
    wire.send({"what": "raised", **_story(error), "question": wire.receive()["question"]})
    os._exit(1)


def _end_all(ranks: list[int]) -> NoReturn:
    """End this process, after the ranks that are left: the system would take its time to clear them away."""
    for rank in ranks:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(rank, os.WNOHANG)[0] == 0:
                os.kill(rank, signal.SIGKILL)
                os.waitpid(rank, 0)
    os._exit(0)  # nothing here needs an orderly end


def _status_of(process: int, ranks: list[int]) -> int:
    """The exit code of a process that is about to end, or minus its signal. If it has, it is no rank any more."""
    for _ in range(400):  # two seconds: on a busy machine a process may wait that long for a core to end on
        with contextlib.suppress(ChildProcessError):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                ranks.remove(process)
                return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return NO_STATUS


def _live(descriptor: int) -> None:
    """The life of one rank; it does not return."""
    with contextlib.suppress(WireClosed, WireError):
        _Rank(_RankWire(socket.socket(fileno=descriptor))).serve()
    os._exit(0)


class _TooSlow(BaseException):
    """Raised in a statement that takes too long. No `except Exception` of the student's takes it for its own."""


class _Rank:
    def __init__(self, wire: _RankWire) -> None:
        self._wire = wire
        self._printed = _ToldStream(wire)
        self._is_limited = False
        self._module = ModuleType("__main__")
        self._module.__dict__.update(__builtins__=builtins, get_ipython=lambda: None, display=print)
        sys.modules["__main__"] = self._module

    def serve(self) -> None:
        """Do what the judge asks for, until it closes the wire."""
        signal.signal(signal.SIGUSR1, self._say_where)
        jobs: dict[str, Callable[..., Any]] = {
            "load": self._load,
            "call": self._call,
            "play": self._play,
        }
        while True:
            request = self._wire.receive()
            self._wire.question = request.pop("question")
            self._printed.make_room(_MOST_PRINTED)
            with contextlib.redirect_stdout(self._printed), contextlib.redirect_stderr(self._printed):
                told = self._attempt(jobs[request.pop("job")], request)
            self._tell(**told)

    def _attempt(self, job: Callable[..., Any], request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"what": "done", "value": job(**request)}
        except WireClosed:
            raise
        except BaseException as error:
            return {"what": "raised", **_story(error)}

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _load(
        self, cells: list[tuple[int, str, list[int]]], names: list[str], known: Statement | None, seconds: float
    ) -> dict[str, Any]:
        """Run cells: number, source, the statements to leave out (-1: all of it).

        Args:
            known: the first statement that no rank has been at before; None if there is none. Before it nothing is
                limited, and nothing is told of what is printed.
            seconds: for all statements from there on, see `statement_seconds`.

        Returns:
            The parameters of the named functions.
        """
        for number, source, left_out in cells:
            self._printed.make_room(_MOST_PRINTED if known is not None and number >= known[0] else -1)
            pieces = [] if -1 in left_out else _pieces(self._parsed(number, source))
            for position, statements in enumerate(pieces):
                if position not in left_out:
                    self._tell("statement", cell=number, number=position, line=statements[0].lineno)
                    is_new = known is not None and (number, position) >= known
                    start = time.monotonic()
                    self._run(statements, f"<cell {number}>", statement_seconds(seconds) if is_new else 0.0)
                    seconds -= time.monotonic() - start if is_new else 0.0
        return {name: _parameters(self._module.__dict__[name]) for name in names if name in self._module.__dict__}

    def _parsed(self, number: int, source: str) -> list[ast.stmt]:
        """The statements of a cell; none if it is no Python, which is told."""
        file = f"<cell {number}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        call_site.cell_numbers[file] = number
        self._tell("statement", cell=number, number=-1, line=1)
        try:
            return ast.parse(source, file).body
        except Exception as error:
            self._tell_error(error, number)
            return []

    def _run(self, statements: Sequence[ast.stmt], file: str, seconds: float) -> None:
        """Run statements, all of them at most `seconds` if these are above 0. When one raises, the next runs anyway."""
        try:
            with self._limited(seconds):
                for statement in statements:
                    self._run_one(statement, file)
        except _TooSlow:
            self._tell("stopped")

    def _run_one(self, statement: ast.stmt, file: str) -> None:
        """Run one statement; tell if it raises."""
        try:
            exec(compile(ast.Module([statement], []), file, "exec"), self._module.__dict__)
        except (_TooSlow, WireClosed):
            raise
        except BaseException as error:
            self._tell_error(error, call_site.cell_numbers.get(file, 0))

    def _tell_error(self, error: BaseException, number: int) -> None:
        """Tell what a cell has raised, with the line."""
        if isinstance(error, SyntaxError) and error.filename == f"<cell {number}>":
            words, place = error.msg, f"cell {number}, line {error.lineno}"
        else:
            site = call_site.site_of_traceback(error.__traceback__)
            words, place = text_of(error), site.place if site else ""
        told = f"{words[:_MOST_CHARACTERS]} ({place})" if place else words[:_MOST_CHARACTERS]
        self._tell("error", kind=type(error).__name__, text=told)

    @contextlib.contextmanager
    def _limited(self, seconds: float) -> Iterator[None]:
        """Raise _TooSlow in a block that takes longer, and again each second: a bare except may catch the first."""
        signal.signal(signal.SIGALRM, self._stop)
        self._is_limited = seconds > 0
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        try:
            yield
        finally:
            self._is_limited = False
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        if self._is_limited and self._wire.is_sending():  # never in the middle of a frame
            signal.setitimer(signal.ITIMER_REAL, _LATER, 1.0)
        elif self._is_limited:
            raise _TooSlow

    def _tell(self, what: str, **details: Any) -> None:
        self._wire.send({"what": what, **details, "question": self._wire.question})

    def _play(
        self, name: str, play: tuple[str, str], inputs: Any, rank: int, world_size: int, helpers: list[Any]
    ) -> Any:
        """Play a case with a function; return what the play returned, as plain values. `play`: its module and name."""
        module, own_name = play
        call_site.forget()
        with self._supplied({form["name"]: supplied_helper(HelperForm(**form), self._wire) for form in helpers}):
            handles = Handles()
            communicator = StudentCommunicator(RankCommunicator(self._wire, 0, rank, world_size), handles)
            around, before = getattr(module_of_plays(module), own_name), copy.deepcopy(inputs)
            result = plain(around(communicator, self._module.__dict__[name], inputs, self._pass_gate))
            return {"result": result, "slips": handles.slips(), "changed": changed_inputs(before, inputs)}

    def _pass_gate(self, k: int, values: torch.Tensor | None = None) -> float:
        factor: float = ask(self._wire, "gate", k=int(k), values=None if values is None else values.detach())
        return factor

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        value = self._module.__dict__[name](*args, **kwargs)
        told = {"value": _plain_number(value), "type": type(value).__name__, "travels": True}
        try:
            decode(*encode(told))  # as the judge does
        except WireError:
            told.update(value=None, travels=False)
        return told

    @contextlib.contextmanager
    def _supplied(self, helpers: dict[str, Callable[..., Any]]) -> Iterator[None]:
        """For one block, let the names of `helpers` lead to the judge's."""
        scope = self._module.__dict__
        before = {name: scope[name] for name in helpers if name in scope}
        scope.update(helpers)
        supplied_now.update(helpers)
        try:
            yield
        finally:
            supplied_now.clear()
            for name in helpers:
                scope.pop(name, None)
            scope.update(before)

    # ── what is told meanwhile ───────────────────────────────────────────────────────────────────────────────────

    def _say_where(self, signum: int, frame: FrameType | None) -> None:
        site = call_site.site_of_frame(frame)
        told = {"what": "at", "place": site.place if site else ""}
        threading.Thread(target=self._wire.send, args=(told,), daemon=True).start()  # it waits for a half-sent frame


class _RankWire(Wire):
    """A wire that sends what was printed before anything else. Pieces of print are many and small: it collects some."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, trusts=True)
        self._printed, self._last = "", 0.0

    def print(self, text: str) -> None:
        """Send a text, soon."""
        self._printed += text
        if len(self._printed) > _MOST_COLLECTED or time.monotonic() - self._last > _SOON:
            self._flush()

    def send(self, value: Any, deadline: float | None = None) -> None:
        self._flush()
        super().send(value, deadline)

    def _flush(self) -> None:
        text, self._printed = self._printed, ""
        if text:
            super().send({"what": "print", "text": text})
            self._last = time.monotonic()


class _ToldStream(io.TextIOBase):
    """Sends what is written to it to the judge, as much as there is room for. The rest is left out."""

    encoding = "utf-8"  # progress bars ask

    def __init__(self, wire: _RankWire) -> None:
        self._wire = wire
        self._room = 0

    def make_room(self, characters: int) -> None:
        """From now on, tell that many; -1 for none, without a word about it."""
        self._room = characters

    def write(self, text: str) -> int:
        if text and self._room >= 0:
            told, self._room = str(text)[: self._room], self._room - len(text)
            self._wire.print(told + (CUT if self._room < 0 else ""))
        return len(text)


def _pieces(statements: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """A cell in the pieces of which one can be left out: single statements, but in very long cells."""
    size = 1 + len(statements) // _MOST_PIECES
    return (statements[start : start + size] for start in range(0, len(statements), size))


def _parameters(function: Any) -> list[tuple[str, str, bool]] | None:
    """Name, kind and whether there is a default, of each parameter; None for what can't be called or does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [("args", "VAR_POSITIONAL", False), ("kwargs", "VAR_KEYWORD", False)] if callable(function) else None
    return [(p.name, p.kind.name, p.default is not inspect.Parameter.empty) for p in parameters]


def _plain_number(value: object) -> object:
    """A number of numpy's as one of Python's, which can travel; everything else as it is."""
    if type(value) in (bool, int, float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _story(error: BaseException) -> dict[str, Any]:
    site = call_site.site_of_traceback(error.__traceback__)
    stack = "".join(traceback.format_exception(error))
    return {
        "kind": type(error).__name__,
        "text": text_of(error)[:_MOST_CHARACTERS],
        "site": None if site is None else (site.place, site.function, site.line, site.via, site.file),
        "stack": stack[-_MOST_CHARACTERS:],
    }


if __name__ == "__main__":
    main()
