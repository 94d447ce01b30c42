"""The simplest play: a function that does not communicate, called once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def call(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """What `function(*inputs["args"], **inputs["kwargs"])` returns."""
    return function(*inputs["args"], **inputs["kwargs"])
