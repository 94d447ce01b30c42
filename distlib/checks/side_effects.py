"""What a function must not leave behind: arguments that have changed, and what it has kept for its next call.

Both are seen by all checks. A rank compares its inputs with what they were (`Played.changed`); a case that fails after
others is played once more, with the function as it was when its cell was run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from distlib.checks.plays import calls
from distlib.checks.remark import Remark
from distlib.checks.rules import returns, values
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences

say = Sentences(__file__)


def explain_kept(remark: Remark) -> Remark:
    """The remark about a case that is right alone, and after others is wrong in the way of `remark`."""
    return say.remark("kept", *remark.details, seen=remark.seen)


def explain_changed(seen: Seen, arguments: Sequence[str], untouched: Sequence[str]) -> Remark | None:
    """The remark about an input that has changed and must not; None if there is none.

    Args:
        arguments, untouched: as of `task`.
    """
    only_computes = sys.modules[seen.case.play.__module__] is calls
    names = {str(k): argument.partition("=")[0] for k, argument in enumerate(arguments)}
    for rank, played in enumerate(seen.played):
        for name, after in played.changed.items():
            if only_computes or name in untouched:
                where = f"on rank {rank} " if seen.size > 1 else ""
                return _changed(where, names.get(name, name), _input(seen.case.inputs[rank], name), after)
    return None


def _changed(where: str, name: str, before: Any, after: Any) -> Remark:
    made = {list: f"list({name})", dict: f"dict({name})", torch.Tensor: f"{name}.clone()"}
    copied = made.get(type(before), f"copy.deepcopy({name})")
    lines = f"before   {_shown(before)}", f"after    {_shown(after)}"
    return say.remark("changed", *lines, where=where, name=name, copied=copied)


def _input(inputs: Any, name: str) -> Any:
    """The input that `Played.changed` calls so."""
    args = dict(enumerate(inputs.get("args", ())))
    return args.get(int(name)) if name.isdecimal() else {**inputs, **inputs.get("kwargs", {})}.get(name)


def _shown(value: Any) -> str:
    return values.in_a_line(value) if isinstance(value, torch.Tensor) else returns.shown(value)
