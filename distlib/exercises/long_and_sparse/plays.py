"""What runs on each rank around a student's ring attention, and around their dispatch of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator


def attend(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, queries, keys, values, causal)`; return what it returned, as "output".

    Args:
        inputs: "queries", "keys", "values": [heads, positions, features]; "causal".
    """
    return {"output": function(comm, *(inputs[name] for name in ("queries", "keys", "values", "causal")))}


def dispatch(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, tokens, experts, capacity)`; return what it returned, as "returned".

    Args:
        inputs: "tokens": [tokens, features]; "experts": [tokens]; "capacity".
    """
    return {"returned": function(comm, *(inputs[name] for name in ("tokens", "experts", "capacity")))}
