"""The check of a function that only computes: called with arguments, it returns a value that is compared.

    Example(args=(0, 10), returns=0.1)        function(0, 10) must return 0.1

Numbers are compared to nine digits, tensors to the rounding of their dtype, all else exactly. A tuple is as good as a
list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from distlib.checks.plays.calls import call
from distlib.checks.remark import Remark
from distlib.grading.checks import name_of
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene

_LONGEST = 60  # characters of an argument in a title


@dataclass(frozen=True)
class Example:
    """A call, and what it must return.

    Attributes:
        args, kwargs: of the call: plain values and tensors.
        returns: the right value.
        causes: wrong values that usual mistakes give, and these mistakes in words: pairs.
    """

    args: Sequence[Any]
    returns: Any
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    causes: Sequence[tuple[Any, str]] = ()


def check_returns(
    function: Callable[..., object],
    *,
    arguments: Sequence[str],
    examples: Sequence[Example],
    cause: Callable[[Example, Any], str] = lambda example, found: "",
    helpers: Sequence[str] = (),
) -> ScenarioReport:
    """Check what `function` returns.

    Args:
        arguments: its parameters as a student reads them, as ("step", "warmup_steps=10").
        examples: calls, simplest first.
        cause: from an example and the wrong value to the usual cause, where the example itself does not know it.
        helpers: names in the student's notebook that lead to functions of ours while the check runs.

    Raises:
        CheckFailed: what is wrong in the first example that fails.
    """
    name = name_of(function, arguments)
    cases = [_case(name, example) for example in examples]

    def judge(case: ScenarioCase, scene: Scene) -> Remark | None:
        return _judge(case.expected, scene.results[0], cause)

    return run_scenarios(function, name, cases, judge, helpers=helpers)


def same(found: Any, expected: Any) -> bool:
    """Whether a value is the expected one."""
    if isinstance(expected, torch.Tensor):
        is_alike = isinstance(found, torch.Tensor) and found.shape == expected.shape and found.dtype == expected.dtype
        return is_alike and torch.allclose(found, expected)
    if isinstance(expected, list | tuple):
        is_list = isinstance(found, list | tuple) and len(found) == len(expected)
        return is_list and all(map(same, found, expected))
    if isinstance(expected, dict):
        is_dict = isinstance(found, dict) and found.keys() == expected.keys()
        return is_dict and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, bool) or isinstance(found, bool):
        return found is expected
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return bool(found == expected)


def shown(value: Any) -> str:
    """A value as a student reads it, of limited length."""
    if isinstance(value, dict) and list(value) == ["type"]:
        return f"a value of type {value['type']}"
    text = f"{value:.10g}" if isinstance(value, float) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 4 * _LONGEST else f"{text[: 4 * _LONGEST]} …"


def _case(name: str, example: Example) -> ScenarioCase:
    inputs = {"args": list(example.args), "kwargs": dict(example.kwargs)}
    given = [shown(value) for value in example.args] + [f"{key}={shown(v)}" for key, v in example.kwargs.items()]
    given = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …" for text in given]
    return ScenarioCase(f"{name}({', '.join(given)})", Part(call, [inputs], 0), expected=example)


def _judge(example: Example, found: Any, cause: Callable[[Example, Any], str]) -> Remark | None:
    if same(found, example.returns):
        return None
    if found is None:
        return Remark(f"it returned None; expected {shown(example.returns)}.", cause="the last line must return it.")
    details = (f"expected {shown(example.returns)}", f"found    {shown(found)}")
    known = next((words for value, words in example.causes if same(found, value)), "")
    return Remark("it returned a wrong value.", details, known or cause(example, found))
