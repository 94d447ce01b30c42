"""Exercise 04: what its judge expects of a whole step is what one process computes."""

import pytest
import torch

from distlib.checks.plays.gated import open_gate
from distlib.checks.seen import Seen
from distlib.checks.task import Draw
from distlib.exercises.master.checks import Step, _total, _work, check_data_parallel_step
from distlib.exercises.master.plays import GatedClassifier, loss_of
from distlib.trace import Trace


def a_run(world_size: int, step: Step) -> Seen:
    """A case of the step, as if it had been played."""
    (case,) = check_data_parallel_step.cases(Draw(5), world_sizes=(world_size,), steps=[step])
    return Seen(case, [], Trace(world_size, []), True)


@pytest.mark.parametrize("loss", ["mean", "sum", "joint"])
@pytest.mark.parametrize("world_size", [1, 4])
def test_without_factors_the_gradients_are_those_of_one_process(
    loss: str, world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distlib.checks.case.Part.factor", lambda part, rank, k: 1.0)
    seen = a_run(world_size, Step(7, loss=loss, frozen=("last.bias",)))
    found_loss, parts = _work(seen)
    inputs = seen.case.inputs[0]
    model = GatedClassifier(inputs["state"], open_gate, inputs["frozen"])
    wanted = loss_of(loss, model(inputs["images"]), inputs["labels"])
    wanted.backward()
    assert torch.allclose(found_loss, wanted, rtol=1e-12)
    for name, gradient in _total(parts).items():
        expected = model.get_parameter(name).grad
        assert (gradient is None) == (expected is None)
        assert gradient is None or torch.allclose(gradient, expected, rtol=1e-12, atol=1e-12)


def test_factors_differ_between_ranks_and_matter() -> None:
    seen = a_run(3, Step(7))
    factors = [seen.case.part.factor(rank, 0) for rank in range(3)]
    assert len(set(factors)) == 3
    single = GatedClassifier(seen.case.inputs[0]["state"], lambda k, values=None: factors[0])
    loss_of("mean", single(seen.case.inputs[0]["images"]), seen.case.inputs[0]["labels"]).backward()
    gradient = single.first.weight.grad
    assert gradient is not None
    assert not torch.allclose(_total(_work(seen)[1])["first.weight"], gradient, rtol=1e-3)
