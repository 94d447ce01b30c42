"""What the check of a program on dp × tp is made of: one process, its mistakes, and what each rank has."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from distlib.checks.plays.block_models import block_model
from distlib.checks.rules.block_training import ROOT
from distlib.checks.task import Draw
from distlib.exercises.hybrid.two_axes_cases import MeshAsOne, TwoAxes, groups_of, two_axes_case

PLAN = TwoAxes(3, 2, (5, 7, 8, 2), 2)


def test_one_process_trains_as_torch_with_all_rows() -> None:
    case = two_axes_case(Draw(1), PLAN)
    given, right = case.inputs[0], MeshAsOne(case)
    model = block_model(given["widths"], given["state"])
    optimizer, norms = torch.optim.SGD(model.parameters(), lr=given["rate"]), []
    for step in range(2):
        x, y = (torch.cat(each) for each in zip(*(own["steps"][step] for own in case.inputs[::2]), strict=True))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), given["max_norm"])))
        optimizer.step()
    assert right.norms == pytest.approx(norms) and norms[0] > given["max_norm"]
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(right.state[name], parameter.detach())


def test_ranks_of_a_tp_group_have_the_same_batches() -> None:
    steps = [given["steps"] for given in two_axes_case(Draw(2), PLAN).inputs]
    assert steps[0] is steps[1] and steps[2] is steps[3]
    assert not torch.equal(steps[0][0][0], steps[2][0][0])


def test_mistakes_end_differently() -> None:
    case = two_axes_case(Draw(3), PLAN)
    ways = [
        MeshAsOne(case),
        MeshAsOne(case, clip=lambda gradients, limit: gradients),
        MeshAsOne(case, clears=False),
        MeshAsOne(case, moves=False),
        MeshAsOne(case, scale=1 / 3),
    ]
    assert all(one.norms != pytest.approx(other.norms, rel=1e-3) for one, other in combinations(ways, 2))


def test_the_parts_of_all_ranks_are_the_parameter() -> None:
    up, down = torch.arange(16.0).reshape(8, 2), torch.arange(16.0).reshape(2, 8)
    parts = [PLAN.part("blocks.0.up.weight", up, rank) for rank in (0, 2, 4, 1, 3, 5)]
    assert torch.equal(torch.cat(parts), up)
    columns = [
        torch.cat([PLAN.part("blocks.0.down.weight", down, rank) for rank in ranks]) for ranks in ((0, 2), (1, 3))
    ]
    assert torch.equal(torch.cat(columns, 1), down)
    assert PLAN.part("last.bias", torch.arange(2.0), 5).shape == (0,)


def test_groups_and_units() -> None:
    both, alone = groups_of(two_axes_case(Draw(4), PLAN).inputs[0]["state"])
    assert len(both) == 2 * 4 and len(alone) == 4 + 2 * 2
    plan = TwoAxes(2, 2, (3, 4, 6, 2), 1)
    block = 2 + 2 + 2 * 4 + 2 + 2 * 3 + 2  # norm, up, down: rows, with one of padding in up
    assert plan.unit_bytes() == {ROOT: (2 * 3 + 2 + 1 * 4 + 1) * 8, "blocks.0": block * 8}
