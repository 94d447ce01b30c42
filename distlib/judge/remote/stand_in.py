"""`RemoteFunction`: what a student's function is called in a test cell, while the function itself is on remote ranks.

A check hands it cases, and gets what the remote ranks have shown. Called like a function, it passes plain values on and
returns what comes back; it is for functions that need no communicator.
"""

from __future__ import annotations

import builtins
import hashlib
import inspect
import time
from collections.abc import Sequence
from typing import Any

from distlib.grading.case import Case
from distlib.grading.observe import Observation, Run
from distlib.grading.scenario_case import ScenarioCase
from distlib.judge.remote.case_run import run_remotely
from distlib.judge.remote.place import RemotePlace
from distlib.judge.remote.proxy import site_from
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.scenario_run import play_remotely, prepare_to_play
from distlib.judge.remote.wire import WireClosed, WireError, WireTimeout
from distlib.worlds.diagnosis import Failure, PeerLost, RankError, RunTimeout, explain_failures


class RemoteError(Exception):
    """What a remote function has raised, where Python has no exception of that name."""


class RemoteFunction:
    """A function on remote ranks.

    Args:
        name: the function's name in the student's notebook.
        ranks: where it is.

    Attributes:
        defined: whether the student's cells have defined it, as something that can be called.
    """

    def __init__(self, name: str, ranks: RemoteRanks) -> None:
        self.__name__ = self.__qualname__ = name
        self._ranks = ranks
        ranks.wire(0)  # so that it is known what the cells have defined
        parameters = ranks.functions.get(name)
        self.defined = parameters is not None
        self.__place__ = RemotePlace(name, ranks)
        self.__signature__ = inspect.Signature([_parameter(*told) for told in parameters or []])

    def seed(self, seed: int) -> int:
        """A seed of a test cell, made one that the student can't know."""
        text = f"{seed} {self._ranks.secret}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def expect(self, world_size: int) -> None:
        """The cases to come need up to this many ranks."""
        self._ranks.expect(world_size)

    def observe(self, case: Case, helpers: tuple[str, ...], timeout: float) -> Observation:
        """Run the function for `case`, at most `timeout` seconds. `helpers`: names that lead to helpers of ours."""
        self._ranks.gather(case.world_size)  # running the cells is no time of the check
        start = time.perf_counter()
        outcomes, trace, error = run_remotely(self._ranks, self.__name__, case, helpers, self._at_most(timeout))
        return Observation(outcomes, trace, error, self.printed(), time.perf_counter() - start)

    def play(self, case: ScenarioCase, helpers: tuple[str, ...], timeout: float) -> Run:
        """Play a scenario with the function, at most `timeout` seconds. The results are of type `Played`."""
        prepare_to_play(self._ranks, case)
        start = time.perf_counter()
        played, trace, error = play_remotely(self._ranks, self.__name__, case, helpers, self._at_most(timeout))
        return Run(played, trace, error, self.printed(), time.perf_counter() - start)

    def reply(self, args: tuple[Any, ...], timeout: float, helpers: Sequence[str] = ()) -> tuple[Any, str]:
        """Call the function with plain values on one rank, at most `timeout` seconds.

        Returns:
            What it returned (None if that is no plain value), and the name of its type.

        Raises:
            RankError: it has raised, ended its process, or not come to an end.
        """
        told = self._tell(list(args), {}, timeout, helpers)
        if told["what"] == "done":
            return told["value"]["value"], str(told["value"]["type"])[:100]
        site = None if told["site"] is None else site_from(told["site"])
        raise explain_failures([Failure(0, str(told["kind"]), str(told["text"]), site, str(told["stack"]))])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with plain values on one rank.

        Raises:
            what the function has raised, if Python knows an exception of that name; else RemoteError.
            TypeError: it has returned something else than plain values and tensors.
            RankError: it has ended its process, or not come to an end.
        """
        told = self._tell(list(args), kwargs, self._ranks.seconds_for_a_check())
        if told["what"] == "done" and told["value"]["travels"]:
            return told["value"]["value"]
        if told["what"] == "done":
            raise TypeError(f"{self.__name__} returned a {told['value']['type']}, expected plain values or tensors")
        raise _exception(str(told["kind"]), str(told["text"]))

    def printed(self) -> str:
        """What the ranks have printed since this was last asked."""
        return self._ranks.printed.take()

    def _tell(self, args: list[Any], kwargs: dict[str, Any], timeout: float, helpers: Sequence[str] = ()) -> Any:
        self._ranks.gather(1)
        timeout = self._at_most(timeout)
        request = {"job": "call", "name": self.__name__, "args": args, "kwargs": kwargs, "helpers": list(helpers)}
        try:
            return self._ranks.ask(0, request, time.monotonic() + timeout, helpers)
        except WireTimeout:
            raise RunTimeout(f"not done after {timeout:.2g} s: rank 0 was computing.", [0]) from None
        except WireClosed:
            raise PeerLost("rank 0 ended in the middle of the run.", [0]) from None
        except WireError as error:
            raise RankError(f"what came back are no plain values: {error}", [0]) from None

    def _at_most(self, timeout: float) -> float:
        return min(timeout, self._ranks.seconds_for_a_check())

    def __repr__(self) -> str:
        return f"<function {self.__name__}, on other processes>"


def _parameter(name: str, kind: str, has_default: bool) -> inspect.Parameter:
    default = None if has_default else inspect.Parameter.empty
    return inspect.Parameter(str(name), inspect._ParameterKind[kind], default=default)


def _exception(kind: str, text: str) -> Exception:
    known = getattr(builtins, kind, None)
    if isinstance(known, type) and issubclass(known, Exception) and known is not UnicodeDecodeError:
        try:
            return known(text)
        except TypeError:  # one that takes other arguments
            pass
    return RemoteError(f"{kind}: {text}")
