"""What the check of models that are cut unit by unit is made of: one process, what is there whole, and bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch

from distlib import SimulatedWorld
from distlib.checks.case import Case
from distlib.checks.plays.gated import open_gate
from distlib.checks.task import Draw
from distlib.communicator import Communicator
from distlib.exercises.zero import unit_plays, unit_rules
from distlib.exercises.zero.unit_cases import Sharding, WholeModel, sharding_case
from distlib.worlds.diagnosis import RankError

# ── one process ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_process_takes_the_steps_of_a_batch_with_all_rows() -> None:
    case = sharding_case(Draw(1), Sharding(3, [5, 4, 3], layers=2, steps=3))
    whole, sets = WholeModel(case), [given["sets"][0] for given in case.inputs]
    model = unit_plays.UnitModel(sets[0]["parameters"])
    optimizer = torch.optim.SGD(model.parameters(), lr=sets[0]["rate"])
    for step in range(3):
        batches = [each["steps"][step]["passes"][0] for each in sets]
        x, y = torch.cat([each["xs"][0] for each in batches]), torch.cat([each["y"] for each in batches])
        torch.testing.assert_close(model(x)[2], whole.outputs(step, 0, 2)[0])
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        right = [torch.cat([p.detach().flatten() for p in unit.parameters()]) for unit in model.units]
        for mine, its in zip(right, whole.flat[step + 1], strict=True):
            torch.testing.assert_close(mine, its)


def test_gradients_of_several_passes_are_added_up() -> None:
    whole = WholeModel(sharding_case(Draw(2), Sharding(2, [4, 3], passes=2, steps=1)))
    (unit,) = whole.average[0]
    every = [own[0] for one in whole.gradients[0] for own in one]
    assert len(every) == 4
    torch.testing.assert_close(unit, sum(every) / 2)


def test_what_computes_first_is_registered_last() -> None:
    plan = Sharding(2, [5, 3], layers=2)
    model = unit_plays.UnitModel(sharding_case(Draw(3), plan).inputs[0]["sets"][0]["parameters"])
    assert [parameter.shape for parameter in model.parameters()] == plan.units[0].shapes == [(3, 3), (3,), (3, 5), (3,)]
    first, last = model.units[0].layers[1], model.units[0].layers[0]
    x = torch.ones(1, 5, dtype=torch.float64)
    torch.testing.assert_close(model(x), 2 * torch.tanh(last(first(x))))


def test_of_units_too_what_computes_first_is_registered_last() -> None:
    model = unit_plays.UnitModel(sharding_case(Draw(3), Sharding(2, [5, 3, 4])).inputs[0]["sets"][0]["parameters"])
    first, second = model.units
    assert [each for each in model.modules() if each in (first, second)] == [second, first]
    x = torch.ones(1, 5, dtype=torch.float64)
    torch.testing.assert_close(model(x), 2 * second(first(x)))


def test_ranks_have_the_same_model_and_batches_of_their_own() -> None:
    one, other = (given["sets"][0] for given in sharding_case(Draw(4), Sharding(2, [4, 3, 2], evaluates=True)).inputs)
    pairs = [zip(*units, strict=True) for units in zip(one["parameters"], other["parameters"], strict=True)]
    assert all(torch.equal(*pair) for each in pairs for pair in each)
    assert not torch.equal(one["steps"][0]["passes"][0]["xs"][0], other["steps"][0]["passes"][0]["xs"][0])
    assert not torch.equal(one["steps"][1]["evaluation"][0], other["steps"][1]["evaluation"][0])


def test_what_mistakes_leave_differs_from_what_is_right_and_from_one_another() -> None:
    case = sharding_case(Draw(5), Sharding(3, [5, 4, 3], passes=2, next_to=True))
    whole, other = WholeModel(case), WholeModel(case, 1)
    gradients = unit_rules._gradient_mistakes(whole, step=1, unit=0, rank=1)
    outputs = unit_rules._output_mistakes(whole, 1, 0, 1, other)
    right = whole.plan.units[0].shards(whole.average[1][0])[1]
    assert (len(gradients), len(outputs)) == (8, 5)
    _all_differ([right, *gradients.values()])
    _all_differ([whole.outputs(1, 0, 1), *outputs.values()])


def _all_differ(values: list[Any]) -> None:
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    for one, other in combinations(flat, 2):
        assert not torch.allclose(one, other)


# ── what there is at a moment ────────────────────────────────────────────────────────────────────────────────────────


def test_shards_and_their_gradients_do_not_count_and_a_larger_memory_does() -> None:
    with unit_plays.UnitWatch([]) as watch:
        shard = torch.nn.Parameter(torch.zeros(10))
        watch.own.append((shard, 40))
        assert watch.now() == 0
        shard.grad = torch.zeros(30)[:10]
        assert watch.now() == 80
        kept = watch.keep(shard)
        assert watch.now() == 80 and kept is not None


@pytest.mark.parametrize("read", [lambda flat: flat + 1, lambda flat: torch.cat([flat, flat]), lambda flat: flat.sum()])
def test_memory_that_was_freed_is_not_read(read: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with unit_plays.UnitWatch([]):
        flat = torch.zeros(10)
        flat.untyped_storage().resize_(0)
        assert torch.zeros_like(flat).sum() == 0
        assert not len(flat.new_empty(0))
        with pytest.raises(RuntimeError, match=r"memory that was freed is read: a tensor of shape \[10\]"):
            read(flat)


def test_a_shard_that_its_unit_has_as_a_parameter_is_none_of_the_unit() -> None:
    unit = torch.nn.Linear(3, 2)
    own = unit_plays._OwnParameters(unit)
    unit.shard = torch.nn.Parameter(torch.zeros(8))
    unit.shard.grad = torch.ones(8)
    assert own.are_there and not own.have_gradients
    unit.bias.grad = torch.ones(2)
    assert own.have_gradients
    unit.bias.untyped_storage().resize_(0)
    assert not own.are_there


def test_parameters_that_are_replaced_are_not_kept_alive() -> None:
    unit = torch.nn.Linear(3, 2, bias=False)
    own, memory = unit_plays._OwnParameters(unit), weakref.ref(unit.weight)
    unit.weight = None
    assert memory() is None
    assert not own.are_there


class Whole(torch.nn.Module):
    """Keeps everything whole: its shards are shards, and its units are always there."""

    def __init__(self, comm: Communicator, module: torch.nn.Module, units: list[torch.nn.Module]) -> None:
        super().__init__()
        flat = [torch.cat([p.detach().flatten() for p in unit.parameters()]) for unit in units]
        parts = [each.chunk(comm.world_size)[comm.rank].clone() for each in flat]
        self.module, self.shards = module, [torch.nn.Parameter(part) for part in parts]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What the module makes of it."""
        output: torch.Tensor = self.module(x)
        return output


def test_a_moment_sees_who_is_there_in_both_passes() -> None:
    case = sharding_case(Draw(6), Sharding(2, [4, 3, 3], steps=1, evaluates=True))
    told = _played(case, Whole)[0]
    training, evaluation = told["sets"][0]["passes"]
    assert [note["unit"] for note in training["forward"]] == [0, 1]
    assert [note["unit"] for note in training["backward"]] == [1, 0]
    assert [note["there"] for note in training["forward"] + training["backward"]] == [[0, 1]] * 4
    assert [note["gradients"] for note in training["backward"]] == [[], [1]]
    assert training["end"]["gradients"] == [0, 1]
    assert (evaluation["kind"], len(evaluation["forward"]), evaluation["backward"]) == ("evaluation", 2, [])


def _played(case: Case, function: Callable[..., Any]) -> list[Any]:
    """What the play returns, by rank. It passes no gate."""

    def play(comm: Communicator) -> Any:
        return unit_plays.shard(comm, function, case.inputs[comm.rank], open_gate)

    return SimulatedWorld(case.world_size, contexts="threads").run(play)


def test_shards_that_are_no_parameters_or_too_few_are_refused() -> None:
    case = sharding_case(Draw(8), Sharding(1, [3, 2, 2]))

    def few(*args: Any) -> Whole:
        made = Whole(*args)
        made.shards = made.shards[:1]
        return made

    def tensors(*args: Any) -> Whole:
        made = Whole(*args)
        made.shards = [shard.data for shard in made.shards]
        return made

    with pytest.raises(RankError, match="expected shards to be a list with a torch.nn.Parameter for each unit"):
        _played(case, few)
    with pytest.raises(RankError, match="expected each of the shards to be a torch.nn.Parameter"):
        _played(case, tensors)


# ── sentences ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_several_units_are_there_and_one_is() -> None:
    assert [unit_rules._units_are(each) for each in ([2], [0, 1])] == ["unit 2 is", "units 0 and 1 are"]


@pytest.mark.parametrize(
    ("plan", "title"),
    [
        (Sharding(2, [3, 2]), "on 2 ranks, units of 8 numbers, 2 steps"),
        (Sharding(1, [3, 2, 2], steps=1), "on 1 rank, units of 8, 6 numbers, 1 step"),
        (
            Sharding(3, [3, 2], passes=2, evaluates=True, next_to=True, dtype=torch.float32),
            "on 3 ranks, units of 8 numbers, float32, 2 backward passes in each step, with evaluation, "
            "two models in turn, 2 steps",
        ),
    ],
)
def test_a_title_says_what_is_played(plan: Sharding, title: str) -> None:
    assert sharding_case(Draw(7), plan).title == title


def test_more_bytes_have_the_cause_that_makes_so_many() -> None:
    causes = unit_rules._causes(passes=4, evaluations=2, forward=10)
    assert list(causes) == [10, 40, 20, 100, 140]
