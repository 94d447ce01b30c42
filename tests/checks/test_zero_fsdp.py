"""What the check of a program with fully_shard is made of: one process, its mistakes, and the sizes of units."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from distlib.checks.plays.block_models import block_model
from distlib.checks.rules.block_training import ROOT
from distlib.checks.task import Draw
from distlib.exercises.zero.fsdp_cases import TrainingAsOne, Wrapping, rows_of, wrapping_case

PLAN = Wrapping(3, (5, 7, 9, 2), 2, [2, 3], frozen=["first"])


def test_one_process_trains_as_torch_with_all_rows() -> None:
    case = wrapping_case(Draw(1), PLAN)
    given, right = case.inputs[0], TrainingAsOne(case)
    model = block_model(given["widths"], given["state"])
    model.first.requires_grad_(False)
    optimizer, norms = torch.optim.SGD(model.parameters(), lr=given["rate"]), []
    for step in range(2):
        batches = [batch for own in case.inputs for batch in own["steps"][step]]
        x, y = (torch.cat(each) for each in zip(*batches, strict=True))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), given["max_norm"])))
        optimizer.step()
    assert right.norms == pytest.approx(norms) and norms[0] > given["max_norm"]
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(right.state[name], parameter.detach())


def test_mistakes_end_differently() -> None:
    case = wrapping_case(Draw(2), PLAN)
    ways = [
        TrainingAsOne(case),
        TrainingAsOne(case, divides=False),
        TrainingAsOne(case, used="last"),
        TrainingAsOne(case, used="first"),
        TrainingAsOne(case, clears=False),
        TrainingAsOne(case, thaws=True),
        TrainingAsOne(case, moves=False),
        TrainingAsOne(case, clips="never"),
        TrainingAsOne(case, clips="by the norm of each rank"),
        TrainingAsOne(case, scale=3),
    ]
    assert all(one.norms != pytest.approx(other.norms, rel=1e-3) for one, other in combinations(ways, 2))


def test_a_rank_has_the_rows_of_its_chunk_and_the_last_one_may_have_none() -> None:
    tensors = {"weight": torch.arange(10.0).reshape(5, 2)}
    assert [len(rows_of(tensors, 4, rank)["weight"]) for rank in range(4)] == [2, 2, 1, 0]
    assert rows_of(tensors, 4, 3)["weight"].shape == (0, 2)


def test_a_unit_has_rows_of_padding_and_what_is_frozen_has_no_gradient() -> None:
    plan = Wrapping(2, (3, 4, 5, 3), 1, [1], frozen=["last"])
    assert plan.unit_bytes() == {ROOT: (2 * 3 + 2 + 2 * 4 + 2) * 8, "blocks.0": (2 + 2 + 3 * 4 + 3 + 2 * 5 + 2) * 8}
    assert plan.unit_bytes(trained=True)[ROOT] == (2 * 3 + 2) * 8
