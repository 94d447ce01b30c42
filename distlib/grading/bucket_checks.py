"""The check of assign_buckets: which parameters share an all-reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from distlib.grading.return_checks import Example, check_returns, same
from distlib.grading.scenario_report import ScenarioReport
from distlib.training.buckets import assign_buckets

Question = tuple[Sequence[int], int, int]  # sizes, bucket_bytes, first_bucket_bytes


def check_assign_buckets(function: Callable[..., object], *, questions: Sequence[Question]) -> ScenarioReport:
    """Check `function(nbytes, bucket_bytes, first_bucket_bytes)`: buckets of indices, from the last parameter on.

    Args:
        questions: sizes of parameters, and the two limits.

    Raises:
        CheckFailed: the first question that was answered wrongly.
    """
    examples = [
        Example((list(nbytes), limit, first), assign_buckets(nbytes, limit, first))
        for nbytes, limit, first in questions
    ]
    return check_returns(
        function, arguments=("nbytes", "bucket_bytes", "first_bucket_bytes"), examples=examples, cause=_cause
    )


def _cause(example: Example, found: Any) -> str:
    nbytes, limit, first = example.args
    backwards = list(reversed(range(len(nbytes))))
    known: list[tuple[Any, str]] = [
        (example.returns[:-1], "the last bucket is missing: it is not full, but needs an all-reduce, too."),
        ([bucket[::-1] for bucket in example.returns], "inside a bucket, too, the last parameter comes first."),
        (example.returns[::-1], "the bucket with the last parameters comes first: its gradients do."),
        (_filled(range(len(nbytes)), nbytes, limit, first), "begin with the last parameter: the last layers are the "
         "first to have gradients."),
        (_filled(backwards, nbytes, limit, limit), "the first bucket has a limit of its own, first_bucket_bytes."),
        (_filled(backwards, nbytes, limit, first, closes_before=True), "a bucket is full when it holds its limit or "
         "more: put the parameter that reaches the limit in, then begin the next bucket."),
        (_filled(backwards, nbytes, limit + 1, first + 1), "a bucket that holds exactly its limit is full."),
        ([backwards], "this is a single bucket: "
         "nothing could be sent before the last gradient is there."),
        ([[index] for index in backwards], "each parameter has a bucket of its own: small ones should share one."),
    ]  # fmt: skip
    cause = next((words for value, words in known if same(found, value)), "")
    return cause or _what_is_off(found, len(nbytes))


def _filled(
    order: Sequence[int], nbytes: Sequence[int], limit: int, first: int, closes_before: bool = False
) -> list[list[int]]:
    """Buckets that are filled in another order, or by another rule."""
    buckets: list[list[int]] = [[]]
    for index in order:
        most = first if len(buckets) == 1 else limit
        held = sum(nbytes[i] for i in buckets[-1])
        if buckets[-1] and (held + nbytes[index] > most if closes_before else held >= most):
            buckets.append([])
        buckets[-1].append(index)
    return [bucket for bucket in buckets if bucket]


def _what_is_off(found: Any, number: int) -> str:
    if not isinstance(found, list | tuple) or not all(isinstance(bucket, list | tuple) for bucket in found):
        return "return a list of lists of indices."
    indices = [index for bucket in found for index in bucket]
    if any(not bucket for bucket in found):
        return "a bucket is empty."
    missing, twice = set(range(number)) - set(indices), len(indices) - len(set(indices))
    if missing:
        return f"parameter {min(missing)} is in no bucket."
    return "a parameter is in two buckets." if twice else ""
