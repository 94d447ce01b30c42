"""A whole checkpoint of a training with fully_shard: one run that it is taken from, and one that goes on with it.

train_and_save    steps ──► the student's function ──► more steps        what it returned, before and after these
load_and_train    other weights ──► the student's function ──► steps     what each rank has, before and after these
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from distlib.checks.plays import block_models
from distlib.checks.plays.block_models import BlockModel, block_model, local_parts, part_of, told
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.plain_values import plain
from distlib.checks.plays.torch_program import process_group
from distlib.communicator import Communicator

RUNS_TORCH = True
SPEAKS = (*block_models.SPEAKS, "train_and_save", "load_and_train")  # the training is the play's own
IMPORTED_LATE = ("torch.distributed.fsdp", "torch.distributed.checkpoint.state_dict", "torch._dynamo")

Batch = tuple[torch.Tensor, torch.Tensor]  # inputs, targets


def train_and_save(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Train, call `function(model, optimizer)`, and train on.

    Args:
        inputs: "widths" and "weights" of the model, the names of its "frozen" layers, "groups" of the optimizer, and
            their "settings", see `sharded`; this rank's batches "before" and "after" the call, one for each step;
            "decay": see `train`.

    Returns:
        "state": what was returned, as it was then; "later": as it is after the last step; "parameters" at the end, see
        `local_parts`; "failed": see `_failure`.
    """
    with process_group(comm):
        model, optimizer = sharded(inputs)
        train(model, optimizer, inputs["before"], inputs["decay"])
        state = function(model, optimizer)
        found = plain(told(state))
        failed = _failure(model, optimizer, inputs)
        return {"state": found, "later": told(state), "parameters": local_parts(model), "failed": failed}


def load_and_train(
    comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate
) -> dict[str, Any]:
    """Call `function(model, optimizer, state)`, and train.

    Args:
        inputs: as of `train_and_save`, without "before"; and the "state", which is empty on all ranks but one. Of its
            groups of parameters it has what the settings say.

    Returns:
        "loaded" and "ended": what this rank has before and after the training, see `_what_is_there`; "failed": see
        `_failure`.
    """
    with process_group(comm):
        model, optimizer = sharded(inputs)
        function(model, optimizer, _as_torchs(inputs["state"], optimizer))
        loaded = plain(_what_is_there(model, optimizer))
        failed = _failure(model, optimizer, inputs)
        return {"loaded": loaded, "ended": _what_is_there(model, optimizer), "failed": failed}


def sharded(inputs: Mapping[str, Any]) -> tuple[BlockModel, torch.optim.AdamW]:
    """A model whose blocks are units of fully_shard, as is the rest; and its optimizer.

    Of each group of the optimizer's there are the names of the parameters, and as settings a dict of options.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = block_model(inputs["widths"], inputs["weights"])
    for name in inputs["frozen"]:
        model.get_submodule(name).requires_grad_(False)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh)
    groups = [[model.get_parameter(name) for name in names] for names in inputs["groups"]]
    settings = zip(groups, inputs["settings"], strict=True)
    return model, torch.optim.AdamW([{"params": group, **options} for group, options in settings])


def train(model: BlockModel, optimizer: torch.optim.Optimizer, batches: Sequence[Batch], decay: float) -> None:
    """A step on each batch, of its mean squared error. After each step all learning rates are multiplied by `decay`."""
    for x, y in batches:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= decay


def _failure(model: BlockModel, optimizer: torch.optim.Optimizer, inputs: dict[str, Any]) -> str | None:
    """The text of the error that torch raises in the steps after the call, since the student's function has left
    something that does not fit; None if it raises none.
    """
    try:
        train(model, optimizer, inputs["after"], inputs["decay"])
    except (RuntimeError, ValueError, TypeError, AttributeError, AssertionError, LookupError) as error:
        if type(error).__module__ != "builtins":  # not torch's: a rank that does not come, for example
            raise
        return f"{type(error).__name__}: {error}"
    return None


def _as_torchs(state: dict[str, Any], optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """A state, as torch would make it: tensors of its own, and groups with all options that this torch has."""
    state = copy.deepcopy(state)
    if state:
        groups = zip(optimizer.param_groups, state["optimizer"]["param_groups"], strict=True)
        state["optimizer"]["param_groups"] = [{**own, **saved} for own, saved in groups]
    return state


def _what_is_there(model: BlockModel, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What this rank has: "parameters", see `local_parts`; of the optimizer the "states" of each parameter, by its name
    in the model ("local" and "is_cut", or a number), and the "groups", without their parameters.
    """
    states = {name: optimizer.state.get(each, {}) for name, each in model.named_parameters()}
    return {
        "parameters": local_parts(model),
        "states": {name: {key: part_of(value) for key, value in each.items()} for name, each in states.items()},
        "groups": [{key: value for key, value in each.items() if key != "params"} for each in optimizer.param_groups],
    }
