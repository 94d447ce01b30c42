"""A rank function of the judge that speaks for a rank in another process.

    remote rank      comm.send(tensor, 1) ──── wire ───►  proxy: comm.send(tensor, 1)   on a SimulatedWorld
    remote rank      goes on             ◄──── wire ────  when that has returned

So everything that a simulated run gives comes along: the order, the counts, the exact deadlock, virtual time. While a
proxy waits for its remote rank, all others stand still: one remote rank computes at a time.

What comes over the wire is data from a stranger. It is only ever passed to a communicator, which checks it; an answer
that makes no sense ends the run.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from distlib.checks.senders import EXECUTED_TEXT
from distlib.checks.student_communicator import Handles
from distlib.checks.supplied import Helper
from distlib.communicator import Communicator, Work
from distlib.judge.remote.question import Question, whole
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.records import record_told
from distlib.judge.remote.torch_questions import torch_call
from distlib.judge.remote.wire import MOST_PAYLOAD, WireClosed, WireError, WireTimeout, dtype_named
from distlib.trace import CallSite, Trace
from distlib.worlds.diagnosis import MessageMismatch, PeerLost, RankError, RunTimeout
from distlib.worlds.simulated.simulator import RaisedElsewhere, RunEnded, SimulatedCommunicator, SimulatedWorld

_PATIENCE = 2.0  # seconds in which a rank that is out of time may say where it is
_LONGEST_NAME, _LONGEST_TEXT = 200, 20_000  # characters
_MOST_LINES = 10_000_000
_MOST_STARTED, _MOST_KEPT = 1_000, 256 << 20  # messages of a rank that are under way, and their bytes
_MOST_GROUPS = 64  # of torch's, of one rank in one run
_MOST_GATES, _MOST_SHOWN = 4096, 1 << 14  # of one rank in one run; bytes
_NO_RECORDS: Mapping[str, Any] = {}
_runs: dict[int, RemoteRun] = {}
_numbers = itertools.count()
Speak = Callable[["RemoteRun", SimulatedCommunicator], Any]


@dataclass
class RemoteRun:
    """What the proxies of one run share.

    Attributes:
        ranks: the remote ranks.
        name: of the function that they call.
        case: what is run.
        helpers: those of the task that is played, by name. No other one can be called.
        seconds: the time limit.
        is_empty: whether every message arrives with zeros in it.
        gates: by rank, the gates that were passed: number and moment.
        shown: by rank, with what: number, and a tensor or None.
        busy: the ranks that are in the middle of something.
        has_deaths: whether ranks die in it, so that a rank may catch what comes of that, and go on.
        runs_torch: whether the play makes process groups of torch.
    """

    ranks: RemoteRanks
    name: str
    case: Any
    helpers: Mapping[str, Helper[..., Any]]
    seconds: float
    is_empty: bool = False
    gates: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    shown: dict[int, list[tuple[int, torch.Tensor | None]]] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)
    has_deaths: bool = False
    runs_torch: bool = False
    deadline: float = 0.0

    def on(self, world: SimulatedWorld, speak: Speak) -> tuple[list[Any], Trace, RankError | None]:
        """Let `speak(run, comm)` speak for each rank.

        Returns:
            What it returned, by rank (nothing if there was an error), the messages, and the error of the run.
        """
        self.ranks.gather(world.world_size)  # starting the processes is not the student's time
        self.has_deaths = bool(world.deaths)
        self.deadline = time.monotonic() + self.seconds
        number = next(_numbers)
        _runs[number] = self
        try:
            return world.run(_speak_for_a_rank, number, speak), world.trace, None
        except RankError as error:
            return [], world.trace, error
        finally:
            del _runs[number]
            for rank in self.busy:
                self.ranks.end(rank)


def _speak_for_a_rank(comm: SimulatedCommunicator, number: int, speak: Speak) -> Any:
    return speak(_runs[number], comm)


@dataclass(frozen=True)
class _Started:
    """A message that is under way.

    Attributes:
        work: its handle.
        landings: where it lands; none if it was sent.
        nbytes: that it takes.
        call: which has begun it: "isend".
        place: where that stands, as the rank says.
    """

    work: Work
    landings: Sequence[torch.Tensor]
    nbytes: int
    call: str
    place: str


class Proxy:
    """The conversation with one remote rank, during one call of its function."""

    def __init__(self, run: RemoteRun, comm: SimulatedCommunicator) -> None:
        self._run, self._comm, self._number = run, comm, comm.rank
        self._question: Question
        self._groups: list[SimulatedCommunicator] = [comm]
        self._handles = Handles()  # counts here, too: what a rank says of itself does not count
        self._works: dict[int, _Started] = {}
        self._place = ""  # of the last call
        self._misfit: RaisedElsewhere | None = None  # the first message of this rank that did not fit
        self._count = itertools.count()
        self._answers: dict[str, Callable[..., Any]] = {
            "send": self._send,
            "recv": self._recv,
            "isend": self._isend,
            "irecv": self._irecv,
            "exchange": self._exchange,
            "wait": self._wait,
            "is_completed": self._is_completed,
            "barrier": self._barrier,
            "split": self._split,
            "helper": self._helper,
            "gate": self._gate,
        }
        if run.runs_torch:
            self._answers |= {"everybody": self._everybody, "subgroup": self._subgroup, "torch": self._torch}

    def converse(self, request: dict[str, Any]) -> Any:
        """Hand over a request, answer until the rank is done, and return what it tells at the end.

        Raises:
            RaisedElsewhere: the rank's function has raised; or it has caught that a message did not fit.
            RunEnded: the rank's process has ended, is out of time, or talks nonsense.
        """
        try:
            self._run.busy.add(self._number)
            self._question = self._run.ranks.question(self._number, request, self._run.deadline)
            while True:
                told = self._question.hear(self._run.deadline)
                what = told.pop("what")
                if what in ("done", "raised"):
                    self._run.busy.discard(self._number)
                if what == "done":
                    if self._misfit is not None:
                        raise self._misfit
                    return told["value"]
                if what == "raised":
                    raise self._raised(**told)
                if what == "print":
                    self._run.ranks.printed.note(told["text"])
                elif what != "at":
                    self._question.answer(self._answer(what, told), self._run.deadline)
        except WireClosed:
            raise RunEnded(self._lost()) from None
        except WireTimeout:
            raise RunEnded(self._out_of_time()) from None
        except (WireError, LookupError, ArithmeticError, AttributeError, TypeError, ValueError) as error:
            raise made_no_sense(self._number, error) from None

    def never_waited(self) -> list[tuple[str, str, str]]:
        """The slips that the judge sees by itself: what was begun, and never waited for."""
        return [("never waited", started.call, started.place) for started in self._works.values()]

    # ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _answer(self, what: str, details: dict[str, Any]) -> dict[str, Any]:
        site = site_from(details.pop("site"))
        if what == "helper" and details["name"] in self._run.helpers:
            site = CallSite(site.place, site.function, site.file, site.line, self._run.helpers[details["name"]].origin)
        if what == "torch":
            site = CallSite(site.place, site.function, site.file, site.line, "torch.distributed")
        self._place = site.place
        self._comm.speak_from(site)
        try:
            return {"value": self._answers[what](**details)}
        except PeerLost as error:
            return {"error": "PeerLost", "text": str(error), "lost": list(error.lost)}
        except (MessageMismatch, ValueError, TypeError, RuntimeError) as error:
            self._note_misfit(error, site)
            known = (MessageMismatch, ValueError, TypeError, RuntimeError)
            kind = next(kind.__name__ for kind in known if isinstance(error, kind))
            return {"error": kind, "text": str(error)}

    def _note_misfit(self, error: Exception, site: CallSite) -> None:
        """Remember a message that did not fit. A rank that catches this error has read in it what another rank has, and
        no message with that was counted, so the run does not pass. What is wrong with a rank's own arguments names no
        ranks, and may be caught."""
        if isinstance(error, MessageMismatch) and error.ranks and not self._run.has_deaths:
            self._misfit = self._misfit or RaisedElsewhere("MessageMismatch", str(error), site, "")

    def _group(self, number: int | None) -> SimulatedCommunicator:
        if type(number) is not int or not 0 <= number < len(self._groups):
            raise ValueError(f"expected a communicator from 0 to {len(self._groups) - 1}, got {number!r}")
        return self._groups[number]

    def _send(self, group: int, tensor: torch.Tensor, dst: int, tag: int) -> None:
        self._group(group).send(tensor, dst, tag)

    def _recv(self, group: int, like: Any, src: int | None, tag: int) -> tuple[torch.Tensor, int]:
        landing = _landing(like)
        source = self._group(group).recv(landing, src, tag)
        return self._arrived(landing), source

    def _isend(self, group: int, tensor: torch.Tensor, dst: int, tag: int) -> int:
        self._make_room(tensor.nbytes)
        return self._keep(self._group(group).isend(tensor, dst, tag), [], tensor.nbytes, "isend")

    def _irecv(self, group: int, like: Any, src: int | None, tag: int) -> int:
        landing = _landing(like)
        self._make_room(landing.nbytes)
        return self._keep(self._group(group).irecv(landing, src, tag), [landing], landing.nbytes, "irecv")

    def _exchange(self, group: int, tensor: torch.Tensor, dst: int, like: Any, src: int, tag: int) -> torch.Tensor:
        landing = _landing(like)
        self._group(group).exchange(tensor, dst, landing, src, tag)
        return self._arrived(landing)

    def _arrived(self, landing: Any) -> Any:
        """What has arrived, a tensor or a list of some, or zeros."""
        if isinstance(landing, list | tuple):
            return [self._arrived(each) for each in landing]
        return landing.zero_() if self._run.is_empty and isinstance(landing, torch.Tensor) else landing

    def _make_room(self, nbytes: int) -> None:
        """Refuse a message where this rank has too many that were started and not waited for."""
        if len(self._works) >= _MOST_STARTED or nbytes + sum(each.nbytes for each in self._works.values()) > _MOST_KEPT:
            most = f"{_MOST_STARTED:,} messages and {_MOST_KEPT >> 20} MiB"
            raise ValueError(f"expected at most {most} that were started and not waited for, got more")

    def _keep(self, work: Work, landings: Sequence[torch.Tensor], nbytes: int, call: str) -> int:
        number = next(self._count)
        self._works[number] = _Started(work, landings, nbytes, call, self._place)
        return number

    def _wait(self, work: int) -> tuple[list[torch.Tensor], int]:
        peer = self._works[work].work.wait()
        return self._arrived(self._works.pop(work).landings), peer

    def _is_completed(self, work: int) -> bool:
        return self._works[work].work.is_completed()

    def _barrier(self, group: int) -> None:
        self._group(group).barrier()

    def _split(self, group: int, color: int | None, key: int | None) -> tuple[int, int, int] | None:
        self._handles.count_split()
        made = self._group(group).split(color, key)
        if made is None:
            return None
        return self._kept_group(made)

    def _kept_group(self, made: Communicator) -> tuple[int, int, int]:
        """Keep a group for this rank; what the rank is told of it."""
        assert isinstance(made, SimulatedCommunicator)
        if len(self._groups) > _MOST_GROUPS:
            raise ValueError(f"expected at most {_MOST_GROUPS} groups, got more")
        self._groups.append(made)
        return len(self._groups) - 1, made.rank, made.world_size

    # ── for torch's process groups ───────────────────────────────────────────────────────────────────────────────

    def _everybody(self, group: int, name: str) -> tuple[int, int, int]:
        return self._kept_group(self._group(group).everybody(limited(name)))

    def _subgroup(self, group: int, members: Any, name: str) -> tuple[int, int, int]:
        parent = self._group(group)
        chosen = [whole(member, 0, parent.world_size - 1) for member in members]
        if len(set(chosen)) != len(chosen) or parent.rank not in chosen:
            raise ValueError(f"expected different ranks, {parent.rank} among them, got {chosen}")
        return self._kept_group(parent.subgroup(chosen, limited(name)))

    def _torch(self, group: int, landings: Any, later: bool, **details: Any) -> dict[str, Any]:
        """Run one of torch's calls on this rank, or begin it.

        Returns:
            The tensors that it has changed, and the number of what still goes on, if it does.
        """
        comm = self._group(group)
        if sum(map(_form_bytes, landings)) > MOST_PAYLOAD:
            raise ValueError(f"expected tensors of at most {MOST_PAYLOAD >> 20} MiB together")
        call = torch_call(comm, details, [_landing(each) for each in landings])
        nbytes = sum(tensor.nbytes for tensor in (*call.given, *call.landings))
        self._make_room(nbytes)
        inside = comm.within(call.text)
        if later:
            return {"changed": [], "work": self._keep(inside.start(call.run), call.changed, nbytes, call.name)}
        inside.run_collective(call.run)
        return {"changed": self._arrived(call.changed), "work": None}

    def _helper(
        self, group: int | None, name: str, given: dict[str, Any], records: Mapping[str, Any] = _NO_RECORDS
    ) -> dict[str, Any]:
        """Run a helper on this rank.

        Returns:
            What it has returned, the tensors that it has changed, and the number of what still goes on, if it does.
        """
        if name not in self._run.helpers:
            raise ValueError(f"{name!r} is not supplied here")
        helper = self._run.helpers[name]
        given = dict(given.items()) | {parameter: record_told(told) for parameter, told in records.items()}
        comm = self._group(group) if helper.form.takes_comm else None
        changed = helper.form.changed(given)
        nbytes = sum(tensor.nbytes for tensor in changed)
        self._make_room(nbytes)
        try:
            made = helper.on_tensors(comm, given)
        except (LookupError, ArithmeticError, AttributeError) as error:  # an error of its own is the student's to read
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        if isinstance(made, Work):
            return {"value": None, "changed": [], "work": self._keep(made, changed, nbytes, name)}
        return {
            "value": made if comm is None else self._arrived(made),
            "changed": self._arrived(changed),
            "work": None,
        }

    def _gate(self, k: int, values: torch.Tensor | None) -> float:
        """Pass a gate: the case, not the rank, says how long that takes, and what the factor is."""
        if type(k) is not int or not (values is None or isinstance(values, torch.Tensor)):
            raise ValueError(f"expected the number of a gate, and a tensor or None, got {k!r} and {values!r}")
        shown = self._run.shown.setdefault(self._number, [])
        if len(shown) >= _MOST_GATES or (values is not None and values.nbytes > _MOST_SHOWN):
            raise ValueError(f"expected at most {_MOST_GATES} gates, and {_MOST_SHOWN} bytes for each")
        part = self._run.case.part
        self._comm.sleep(part.seconds(self._number, k))
        self._run.gates.setdefault(self._number, []).append((k, self._comm.time()))
        shown.append((k, values))
        factor: float = part.factor(self._number, k)
        return factor

    # ── when something is wrong ──────────────────────────────────────────────────────────────────────────────────

    def _raised(self, kind: str, text: str, site: Any, stack: str) -> RaisedElsewhere:
        where = None if site is None else site_from(site)
        return RaisedElsewhere(limited(kind), str(text)[:_LONGEST_TEXT], where, str(stack)[-_LONGEST_TEXT:])

    def _lost(self) -> PeerLost:
        how = self._run.ranks.how_it_ended(self._number)
        return PeerLost(f"rank {self._number} ended in the middle of the run: {how}.", [self._number])

    def _out_of_time(self) -> RunTimeout:
        place = self._where()
        prefix, where = (f"{place}: ", f" at {place}") if place else ("", "")
        text = f"{prefix}not done after {self._run.seconds:.2g} s: rank {self._number} was computing{where}."
        return RunTimeout(text, [self._number])

    def _where(self) -> str:
        """Ask a rank that does not answer for its line, or take that of the call which it makes just now; empty if it
        says neither, or was never asked anything."""
        if not hasattr(self, "_question"):
            return ""
        self._run.ranks.interrupt(self._number)
        deadline = time.monotonic() + _PATIENCE
        try:
            while (told := self._question.hear(deadline))["what"] == "print":
                self._run.ranks.printed.note(told["text"])
            return limited(told["place"]) or self._place if told["what"] == "at" else site_from(told["site"]).place
        except WireError:  # the deadline has cut a frame: the rank was in the middle of a call
            return self._place
        except (WireClosed, WireTimeout, KeyError, TypeError, ValueError):
            return ""


def made_no_sense(rank: int, error: Exception) -> RunEnded:
    """The end of a run in which a rank has sent what nobody asked for."""
    return RunEnded(
        RankError(f"rank {rank} did not keep to the protocol of its communicator: {limited(error)}", [rank])
    )


def _landing(like: Any) -> torch.Tensor:
    """Memory to receive into, of a shape and dtype that a rank has named."""
    if _form_bytes(like) > MOST_PAYLOAD:
        raise ValueError(f"expected a message of at most {MOST_PAYLOAD >> 20} MiB")
    shape, name = like
    return torch.empty(shape, dtype=dtype_named(name))


def _form_bytes(like: Any) -> int:
    """The bytes of a tensor of a shape and dtype that a rank has named."""
    shape, name = like
    return math.prod(whole(size, 0, MOST_PAYLOAD) for size in shape) * dtype_named(name).itemsize


def site_from(told: Any) -> CallSite:
    """The line that a rank says it is at. Only shown; the file is dropped, so that nothing is read in its name."""
    place, function, line, via, file = told
    kept = EXECUTED_TEXT if file == EXECUTED_TEXT else ""
    return CallSite(
        limited(place), limited(function), kept, whole(line, 0, _MOST_LINES), None if via is None else limited(via)
    )


def limited(text: object) -> str:
    """A name from a stranger, of limited length."""
    return str(text)[:_LONGEST_NAME]
