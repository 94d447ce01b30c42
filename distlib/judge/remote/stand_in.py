"""`RemoteFunction`: what a student's function is called in a test cell, while the function itself is on remote ranks.

A check hands it cases, and gets what the remote ranks have shown. Called like a function, it passes plain values on and
returns what comes back; it is for functions that need no communicator.
"""

from __future__ import annotations

import builtins
import inspect
import time
from typing import Any

from distlib.checks.absent_function import AnswerCell, why_absent
from distlib.checks.remark import CheckFailed, Remark
from distlib.judge.remote.question import text
from distlib.judge.remote.ranks import RemoteRanks
from distlib.judge.remote.venue import RemoteVenue
from distlib.judge.remote.wire import WireClosed, WireError, WireTimeout
from distlib.worlds.diagnosis import PeerLost, RankError, RunTimeout

_LONGEST_NAME, _LONGEST_TEXT = 200, 20_000  # characters


class RemoteError(Exception):
    """What a remote function has raised, where Python has no exception of that name."""


class RemoteFunction:
    """A function on remote ranks.

    Args:
        cell: where the student's notebook has it.
        ranks: where it is.

    Attributes:
        defined: whether the student's cells have defined it, as something that can be called.
    """

    def __init__(self, cell: AnswerCell, ranks: RemoteRanks) -> None:
        name = self.__name__ = self.__qualname__ = cell.function
        self._cell, self._ranks = cell, ranks
        ranks.gather(1)  # so that it is known what the cells have defined
        parameters = ranks.functions.get(name)
        self.defined = parameters is not None
        self._venue = RemoteVenue(name, ranks)
        self.__signature__ = _signature(parameters or [])

    def why_absent(self) -> Remark:
        """What to say where it is not `defined`."""
        errors = self._ranks.cells.errors.get(self._cell.number, ())
        stopped = next((f"{kind}: {words}" for kind, words in errors), "")
        return why_absent(self._cell, stopped, is_a_value=self.__name__ in self._ranks.functions)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function with plain values on one rank.

        Raises:
            CheckFailed: it is not there.
            what the function has raised, if Python knows an exception of that name; else RemoteError.
            TypeError: it has returned something else than plain values and tensors.
            RankError: it has ended its process, or not come to an end.
        """
        if not self.defined:
            raise CheckFailed(self.__name__, self.why_absent())
        told = self._tell(list(args), kwargs, self._ranks.seconds_for_a_check())
        try:
            if told["what"] == "raised":
                problem = _exception(text(told["kind"], _LONGEST_NAME), text(told["text"], _LONGEST_TEXT))
                if told["site"] is not None:
                    problem.add_note(text(told["site"][0], _LONGEST_NAME))
            elif told["value"]["travels"] is True:
                return told["value"]["value"]
            else:
                kind = text(told["value"]["type"], _LONGEST_NAME)
                problem = TypeError(f"{self.__name__} returned a {kind}, expected plain values or tensors")
        except (LookupError, TypeError, ValueError) as error:
            problem = RankError(f"what came back makes no sense: {error}", [0])
        raise problem

    def _tell(self, args: list[Any], kwargs: dict[str, Any], timeout: float) -> Any:
        self._ranks.gather(1)
        timeout = self._at_most(timeout)
        request = {"job": "call", "name": self.__name__, "args": args, "kwargs": kwargs}
        try:
            return self._ranks.ask(0, request, time.monotonic() + timeout)
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


def _signature(parameters: list[tuple[str, str, bool]]) -> inspect.Signature:
    try:
        return inspect.Signature([_parameter(*told) for told in parameters])
    except ValueError:  # no names, or in an order that no function has
        return inspect.Signature([_parameter("args", "VAR_POSITIONAL", False)])


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
