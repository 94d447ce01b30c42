"""The simplest plays: a function that does not communicate, called once, or twice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.plain_values import changed_inputs, plain
from distlib.communicator import Communicator


def call(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """What `function(*inputs["args"], **inputs["kwargs"])` returns."""
    return function(*inputs["args"], **inputs["kwargs"])


def call_twice(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """As `call`; where a second call returns something else, {"first": …, "again": …}, for `returns.every_call`.

    A function that has changed its arguments is not called again: what would come of that is no news.
    """
    before = copy.deepcopy(inputs)
    first = plain(call(comm, function, inputs, gate))  # a copy: the second call may change what the first has returned
    if changed_inputs(before, inputs):
        return first
    again = plain(call(comm, function, inputs, gate))
    return first if repr(first) == repr(again) else {"first": first, "again": again}


def attempt(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """As `call`, where a ValueError may be right: {"returned": …}, or {"refused": the error's text}; and the "args"."""
    try:
        ended = {"returned": call(comm, function, inputs, gate)}
    except ValueError as error:
        ended = {"refused": str(error)}
    return {**ended, "args": inputs["args"]}
