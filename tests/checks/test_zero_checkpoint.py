"""What the checks of a whole checkpoint are made of: one process with AdamW, and what its steps send."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from distlib import Communicator, SimulatedWorld
from distlib.checks.plays.block_models import block_model
from distlib.checks.rules.torch_messages import messages_by_size
from distlib.checks.rules.values import is_close
from distlib.checks.task import Draw
from distlib.exercises.zero.checkpoint_cases import Break, WholeTraining, drawn_breaks, loading_case, saving_case
from distlib.exercises.zero.checkpoint_plays import train_and_save

PLAN = Break(3, (5, 7, 9, 2), 2, before=3, after=2, frozen=["first"])
MORE = replace(PLAN, amsgrad=True, groups=3)


@pytest.mark.parametrize("plan", [PLAN, MORE], ids=["usual", "with a third moment and a third group"])
def test_one_process_trains_as_torchs_adamw_with_all_rows(plan: Break) -> None:
    case = saving_case(Draw(1), plan)
    given, training = case.inputs[0], WholeTraining(case)
    model = block_model(given["widths"], given["weights"])
    model.first.requires_grad_(False)
    groups = [[model.get_parameter(name) for name in names] for names in given["groups"]]
    assert sum(map(len, groups)) == len(list(model.parameters())) and all(groups)
    settings = zip(groups, given["settings"], strict=True)
    optimizer = torch.optim.AdamW([{"params": group, **options} for group, options in settings])
    for part in ("before", "after"):
        for batches in zip(*(own[part] for own in case.inputs), strict=True):
            x, y = (torch.cat(each) for each in zip(*batches, strict=True))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            for group in optimizer.param_groups:
                group["lr"] *= given["decay"]
        now = training.run(part)
        assert [each["lr"] for each in now.groups] == [each["lr"] for each in optimizer.param_groups]
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(now.parameters[name], parameter.detach())
            for key, moment in now.moments.get(name, {}).items():
                torch.testing.assert_close(moment, optimizer.state[parameter][key])
            assert now.moments.get(name, {}).keys() == optimizer.state[parameter].keys() - {"step"}
    assert now.steps == 5 and "first.weight" not in now.moments


def test_a_training_goes_on_from_a_state_that_others_have_left() -> None:
    case = loading_case(Draw(2), PLAN)
    begins = WholeTraining(case).now
    assert [bool(given["state"]) for given in case.inputs] == [True, False, False]
    assert begins.steps == 3
    for name, own in case.inputs[0]["weights"].items():
        assert not is_close(begins.parameters[name], own)
    for group, own in zip(begins.groups, case.inputs[0]["settings"], strict=True):
        assert all(group[key] != own[key] for key in ("lr", "betas", "eps"))


def test_what_steps_send_is_known() -> None:
    case = saving_case(Draw(3), PLAN)

    def nothing(model: object, optimizer: object) -> None:
        """Saves nothing."""

    def rank(comm: Communicator) -> None:
        train_and_save(comm, nothing, case.inputs[comm.rank], lambda k, values=None: 1.0)

    world = SimulatedWorld(3, contexts="threads")
    world.run(rank)
    for each in range(3):
        assert messages_by_size(world.trace, each) == PLAN.training_messages(5)


def test_drawn_cases_differ() -> None:
    drawn = drawn_breaks(Draw(4), 6)
    assert {each.ranks for each in drawn} <= {2, 3, 4, 5}
    assert all(one != other for one, other in pairwise(drawn))
    assert len({each.ranks for each in drawn}) > 1
