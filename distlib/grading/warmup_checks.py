"""The check of warmup_learning_rate: linear scaling with a gradual warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distlib.grading.return_checks import Example, check_returns, same
from distlib.grading.scenario_report import ScenarioReport
from distlib.training.large_batch import warmup_learning_rate

Question = tuple[int, float, int, int, int]  # step, base_learning_rate, base_batch_size, batch_size, warmup_steps


def check_warmup_learning_rate(function: Callable[..., object], *, questions: Sequence[Question]) -> ScenarioReport:
    """Check `function(step, base_learning_rate, base_batch_size, batch_size, warmup_steps)`.

    Args:
        questions: arguments.

    Raises:
        CheckFailed: the first question that was answered wrongly.
    """
    return check_returns(
        function,
        arguments=("step", "base_learning_rate", "base_batch_size", "batch_size", "warmup_steps"),
        examples=[Example(question, warmup_learning_rate(*question)) for question in questions],
        cause=_cause,
    )


def _cause(example: Example, found: Any) -> str:
    step, base, small, large, steps = example.args
    k, part = large / small, step / steps if steps else 1.0
    full, ramped = base * k, min(part, 1.0)
    late = min((step + 1) / steps, 1.0) if steps else 1.0
    early = min(step / (steps - 1), 1.0) if steps > 1 else 1.0
    known: list[tuple[float, str]] = [
        (base * (1 + (k - 1) * part), "that goes on growing. After warmup_steps the rate stays what it is."),
        (full * ramped, "that begins at 0. Begin at base_learning_rate."),
        (full * late, "that begins at a part of the full rate. Begin at base_learning_rate."),
        (base * (1 + (k - 1) * late), "that is the rate of the next step. Step 0 has base_learning_rate."),
        (base * (1 + (k - 1) * early), "that reaches the full rate one step too early: in step warmup_steps - 1."),
        (full, "that is the full rate, without a warm-up."),
        (base, "that is the base rate. In step warmup_steps and later it is batch_size / base_batch_size times that."),
        (base * (1 + (k**0.5 - 1) * ramped), "that is scaled by the square root. k times the batch, k times the rate."),
        (base * (1 + (1 / k - 1) * ramped), "that is scaled by base_batch_size / batch_size, the wrong way round."),
        (base * (1 + (large // small - 1) * ramped), "the quotient of the batch sizes need not be a whole number: /, "
         "not //."),
        (base * k**ramped, "that grows by the same factor in each step. It should grow by the same amount."),
        (base + k * ramped, "the scale multiplies the rate; it is not added to it."),
        (base * (1 + k * ramped), "that ends above the full rate: from 1 to k times the base rate, it grows by k - 1."),
    ]  # fmt: skip
    return next((words for value, words in known if same(found, value)), "")
