"""What the checks of exercise 12d are made of: the attention of one process, and which tokens go where."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from distlib.checks.case import Case
from distlib.checks.seen import Seen
from distlib.checks.task import Draw
from distlib.exercises.long_and_sparse import checks
from distlib.exercises.long_and_sparse.checks import DispatchPlan, RingPlan, attention
from distlib.exercises.long_and_sparse.plays import attend
from distlib.trace import Trace


def seen_of(plan: RingPlan) -> Seen:
    draw = Draw(3)
    inputs = [{name: draw.normal(plan.shape) for name in ("queries", "keys", "values")} for _ in range(plan.ranks)]
    return Seen(Case(plan.title, attend, inputs, plan), [], Trace(plan.ranks, []), True)


@pytest.mark.parametrize("causal", [False, True])
def test_the_parts_of_all_ranks_are_the_attention_of_torch(causal: bool) -> None:
    seen = seen_of(RingPlan(3, causal, 1.0, (2, 3, 4)))
    whole = [torch.cat(seen.given(name), dim=1) for name in ("queries", "keys", "values")]
    together = torch.cat([attention(seen, rank) for rank in range(3)], dim=1)
    torch.testing.assert_close(together, scaled_dot_product_attention(*whole, is_causal=causal), rtol=1e-12, atol=1e-14)


def test_the_outputs_of_usual_mistakes_differ_from_the_right_one() -> None:
    seen = seen_of(RingPlan(3, True, 1.0, (2, 3, 4)))
    right = attention(seen, 1)
    for words, values in checks._wrong_outputs(seen, 1).items():
        for value in values if isinstance(values, list) else [values]:
            is_harmless = words == checks.say("block_missing") and torch.allclose(value, right)
            assert is_harmless or not torch.allclose(value, right), words  # rank 1 does not see block 2


def test_scores_of_a_case_are_beyond_the_range_of_exp() -> None:
    (case,) = checks.check_ring_attention.cases(Draw(1), sequences=[(3, True, 60.0)])
    scores = [
        given["queries"] @ given["keys"].transpose(1, 2) / math.sqrt(given["keys"].shape[2]) for given in case.inputs
    ]
    assert max(float(each.max()) for each in scores) > 710


def test_the_first_tokens_of_each_rank_go_to_an_expert() -> None:
    plan = DispatchPlan([[1, 0, 1, 1, 0], [0, 0]], 2)
    assert [plan.kept(0, 0), plan.kept(0, 1), plan.kept(1, 0), plan.kept(1, 1)] == [[1, 4], [0, 2], [0, 1], []]
    assert [plan.dropped(0), plan.dropped(1)] == [1, 0]
