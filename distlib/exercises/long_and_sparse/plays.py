"""What runs on each rank around a student's ring attention, and around their dispatch of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from distlib.checks.plays.bytes_alive import LiveBytes
from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # ranks are threads, since torch shows the operations of a thread


def attend(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Call `function(comm, queries, keys, values, causal)`.

    Args:
        inputs: "queries", "keys", "values": [heads, positions, features]; "causal".

    Returns:
        "output": what it returned; "peak": the most bytes that were alive at the same time, with those of the inputs.
    """
    given = [inputs[name] for name in ("queries", "keys", "values")]
    with LiveBytes(given) as live:
        output = function(comm, *given, inputs["causal"])
    return {"output": output, "peak": live.peak}


def dispatch(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(comm, tokens, experts, capacity)`; return what it returned, as "returned".

    Args:
        inputs: "tokens": [tokens, features]; "experts": [tokens]; "capacity".
    """
    return {"returned": function(comm, *(inputs[name] for name in ("tokens", "experts", "capacity")))}
