"""The state of a sharded optimizer, gathered: that of one process, and loaded on another number of ranks."""

from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator, RankError, SimulatedWorld
from distlib.training.zero import (
    FullyShardedModule,
    ShardedOptimizer,
    load_whole_optimizer_state,
    whole_optimizer_state,
)

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01}),
}


def make_model(width: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, width), nn.Linear(width, 4), nn.Linear(4, 3)).double()
    model[1].requires_grad_(False)  # a frozen layer has a number for torch, and no state
    return model


def step(model: nn.Module, optimizer: Any, number: int, comm: Communicator | None) -> None:
    inputs = torch.randn(12, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(number))
    mine = inputs if comm is None else inputs.view(comm.world_size, -1, 6)[comm.rank]
    optimizer.zero_grad()
    model(mine).square().mean().backward()
    optimizer.step()


def one_process(name: str, steps: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    kind, options = OPTIMIZERS[name]
    model = make_model()
    optimizer = kind(model.parameters(), **options)  # type: ignore[call-arg]
    for number in range(steps):
        step(model, optimizer, number, None)
    return model, optimizer


def sharded(comm: Communicator, stage: int, name: str, width: int = 5) -> tuple[Any, Any]:
    kind, options = OPTIMIZERS[name]
    model = make_model(width)
    if stage == 1:
        return model, ShardedOptimizer(comm, model, kind, **options)
    wrapped = FullyShardedModule(comm, model)
    return wrapped, kind(wrapped.parameters(), **options)  # type: ignore[call-arg]


def train_and_gather(comm: Communicator, stage: int, name: str) -> Any:
    model, optimizer = sharded(comm, stage, name)
    for number in range(2):
        step(model, optimizer, number, comm)
    return optimizer.state_dict() if stage == 1 else whole_optimizer_state(model, optimizer)


def load_and_go_on(comm: Communicator, stage: int, name: str, parameters: Any, state: Any) -> Any:
    model, optimizer = sharded(comm, stage, name)
    model.load_state_dict(parameters)
    if stage == 1:
        optimizer.take_parameters()
        optimizer.load_state_dict(state)
    else:
        load_whole_optimizer_state(model, optimizer, state)
    step(model, optimizer, 2, comm)
    return {key: tensor.clone() for key, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("stage", [1, 3])
def test_it_is_gathered_and_loaded_as_torch_has_it(stage: int, name: str) -> None:
    """Saved by 4 ranks, loaded by 3 and by torch's own optimizer; then all go on alike."""
    before, optimizer = one_process(name, 2)
    wanted = optimizer.state_dict()
    for found in SimulatedWorld(4, contexts="threads").run(train_and_gather, stage, name):
        assert found["param_groups"][0]["params"] == wanted["param_groups"][0]["params"] == [0, 1, 2, 3, 4, 5]
        torch.testing.assert_close(found["state"], wanted["state"], rtol=0, atol=1e-9)
    optimizer.load_state_dict(deepcopy(found))  # torch takes the tensors as they are, and changes them
    parameters = {key: tensor.clone() for key, tensor in before.state_dict().items()}
    step(before, optimizer, 2, None)
    after = dict(before.state_dict())
    for went_on in SimulatedWorld(3, contexts="threads").run(load_and_go_on, stage, name, parameters, found):
        torch.testing.assert_close(went_on, after, rtol=0, atol=1e-9)


def test_before_the_first_step_there_is_nothing_to_gather() -> None:
    def gather(comm: Communicator) -> Any:
        return sharded(comm, 1, "AdamW")[1].state_dict()

    assert [found["state"] for found in SimulatedWorld(2).run(gather)] == [{}, {}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state["state"][0].update(exp_avg=torch.zeros(7, 6)), r"exp_avg of 0.weight has .* \(7, 6\)"),
        (
            lambda state: state["param_groups"][0].update(params=[0, 1]),
            r"groups have \[2\] parameters, where this one has \[6\]",
        ),
    ],
    ids=["shape", "number"],
)
def test_the_state_of_another_model_is_refused(change: Any, words: str) -> None:
    state = one_process("AdamW", 1)[1].state_dict()
    change(state)

    def load(comm: Communicator) -> None:
        sharded(comm, 1, "AdamW")[1].load_state_dict(state)

    with pytest.raises(RankError, match=f"a state of another model.*{words}"):
        SimulatedWorld(2).run(load)


def test_several_groups_are_refused() -> None:
    def gather(comm: Communicator) -> None:
        model, _ = sharded(comm, 3, "AdamW")
        first, second = [unit.shard for unit in model.units]
        whole_optimizer_state(model, torch.optim.AdamW([{"params": [first], "lr": 0.1}, {"params": [second]}]))

    with pytest.raises(RankError, match="one group of parameters, got 2 groups"):
        SimulatedWorld(2).run(gather)
