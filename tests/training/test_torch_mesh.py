"""The same model trained by torch alone: in one process, and by its own three directions on its own mesh."""

import copy
import logging
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.functional import cross_entropy

from distlib import Communicator, SimulatedWorld, World, torch_distributed
from distlib.training.mesh import SmallTransformer
from distlib.training.mesh.plain_transformer import PlainLayer, plain_layers, plain_state
from tests.training.test_hybrid import MODEL, STEPS, batch, train_alone

COLUMNS, ROWS = ("queries", "keys", "values", "up"), ("output", "down")


def whole_state(model: SmallTransformer = MODEL) -> dict[str, torch.Tensor]:
    return SimulatedWorld(1).run(lambda comm: model.layers(comm, dtype=torch.float64).state_dict())[0]


def loss_of(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return cross_entropy(scores.flatten(0, 1), following.flatten())


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, positions=6)], ids=["without positions", "with positions"])
def test_one_process_of_ours_is_one_of_torchs(model: SmallTransformer) -> None:
    """What the hybrid steps are compared with does not know our layers' faults, if it can be torch's as well."""
    losses, _, whole = train_alone(model)
    layers = plain_layers(model, whole_state(model))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.01)
    for step in range(STEPS):
        tokens, following = batch(step)
        optimizer.zero_grad()
        loss = loss_of(layers(tokens), following)
        loss.backward()
        optimizer.step()
        assert loss.item() == pytest.approx(losses[step], abs=1e-9)
    wanted = plain_state(whole)
    assert wanted.keys() == layers.state_dict().keys()
    for name, tensor in layers.state_dict().items():
        torch.testing.assert_close(tensor, wanted[name], rtol=0, atol=1e-9)


def train_by_torch(
    comm: Communicator, layers: nn.Sequential, schedule_class: Any, wanted: dict[str, torch.Tensor]
) -> tuple[list[float], float]:
    """Ten steps on dp 2 × pp 2 × tp 2. Returns this rank's losses, and how far its parameters are off."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    with torch_distributed(comm, "gloo"):
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "pp", "tp"))
        dp, pp = mesh.get_local_rank("dp"), mesh.get_local_rank("pp")
        half = len(layers) // 2
        stage = copy.deepcopy(layers[half:] if pp else layers[:half])
        plan = dict.fromkeys(COLUMNS, ColwiseParallel()) | dict.fromkeys(ROWS, RowwiseParallel())
        for part in stage:
            if isinstance(part, PlainLayer):
                parallelize_module(part, mesh["tp"], plan)
            fully_shard(part, mesh=mesh["dp"], reshard_after_forward=False)
        fully_shard(stage, mesh=mesh["dp"], reshard_after_forward=False)
        place = PipelineStage(stage, pp, 2, torch.device("cpu"), group=mesh.get_group("pp"))
        schedule = schedule_class(place, n_microbatches=2, loss_fn=loss_of)
        optimizer = torch.optim.AdamW(stage.parameters(), lr=0.01)
        losses = []
        for step in range(STEPS):
            tokens, following = (part.tensor_split(2)[dp] for part in batch(step))
            optimizer.zero_grad()
            of_microbatches: list[torch.Tensor] = []
            if pp == 0:
                schedule.step(tokens)
            else:
                schedule.step(target=following, losses=of_microbatches)
                losses.append(float(torch.stack(of_microbatches).mean().detach()))
            optimizer.step()
        parameters: Any = stage.named_parameters()
        return losses, max(float((each.full_tensor() - wanted[name]).abs().max()) for name, each in parameters)


@pytest.mark.slow
@pytest.mark.parametrize("schedule_class", [ScheduleGPipe, Schedule1F1B])
def test_torchs_three_directions_are_ours(schedule_class: Any) -> None:
    losses, _, whole = train_alone(MODEL)
    with World(8) as world:
        layers = plain_layers(MODEL, whole_state())
        by_rank = world.run(train_by_torch, layers, schedule_class, plain_state(whole))
    means = [sum(each) / len(each) for each in zip(*(found for found, _ in by_rank if found), strict=True)]
    assert means == pytest.approx(losses, abs=1e-9)
    assert max(off for _, off in by_rank) <= 1e-9
