"""What a way of training hands over: how one rank takes its steps, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from distlib.capstone.train_alone import MAX_NORM
from distlib.collectives import all_reduce
from distlib.communicator import Communicator, ReduceOp
from distlib.training.large_batch import all_reduce_together

Weights = dict[str, torch.Tensor]
"""The weights of the whole model, by the names that they have in `CapstonePlan.whole_model`."""


@dataclass(frozen=True)
class WayOnRank:
    """One rank's part of a training.

    Attributes:
        train: takes the numbers of some steps, one after the other, and trains. Returns for each of them this rank's
            share of the loss: those of all ranks add up to the loss of the batch.
        parameters: what this rank keeps of the model.
        optimizer: of them; None on a rank that has none.
        whole: the weights of the whole model, on every rank; all must call it.
    """

    train: Callable[[Iterable[int]], list[float]]
    parameters: Sequence[torch.Tensor]
    optimizer: torch.optim.Optimizer | None
    whole: Callable[[], Weights]

    def state(self) -> dict[str, Any]:
        """Everything that this rank's next step depends on."""
        states = None if self.optimizer is None else self.optimizer.state_dict()
        return {"parameters": [each.detach() for each in self.parameters], "optimizer": states}

    @torch.no_grad()
    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` has returned, in place."""
        for mine, kept in zip(self.parameters, state["parameters"], strict=True):
            mine.copy_(kept)
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])

    def kept_bytes(self) -> dict[str, int]:
        """What this rank keeps between two steps, in bytes, by the kinds of lesson 11. Activations are not in it."""
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        states = [] if self.optimizer is None else self.optimizer.state.values()
        moments = [each for state in states for each in state.values() if each.ndim > 0]  # not the number of the step
        kinds = {"parameters": self.parameters, "gradients": gradients, "optimizer states": moments}
        return {kind: sum(each.nbytes for each in tensors) for kind, tensors in kinds.items()}


def one_by_one(train_one: Callable[[int], float]) -> Callable[[Iterable[int]], list[float]]:
    """What trains some steps, made of what trains one."""
    return lambda steps: [train_one(step) for step in steps]


def clip_in_each_step(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor]) -> None:
    """Have an optimizer clip the gradients of these parameters before each of its steps: for loops that take it."""

    def clip(*_: Any) -> None:
        nn.utils.clip_grad_norm_(parameters, MAX_NORM)

    optimizer.register_step_pre_hook(clip)


def sum_of_shares(comm: Communicator, shares: Sequence[float]) -> list[float]:
    """The losses that the shares of all ranks add up to, the same on every rank."""
    losses = torch.tensor(shares, dtype=torch.float64, device=comm.device)
    all_reduce(comm, losses)
    return losses.tolist()


@torch.no_grad()
def put_together(
    comm: Communicator,
    like: Mapping[str, torch.Tensor],
    own: Mapping[str, torch.Tensor],
    cuts: Mapping[str, Any] | None = None,
) -> Weights:
    """A whole model from its parts, on every rank: each writes its own into zeros, and the sum over the ranks is whole.

    Args:
        like: tensors of the whole model, for names and shapes.
        own: what this rank alone has, by name.
        cuts: by name, where in the whole tensor it stands; all others are whole.
    """
    found = {name: torch.zeros_like(each, device=comm.device) for name, each in like.items()}
    for name, tensor in own.items():
        found[name][(cuts or {}).get(name, ...)] = tensor
    all_reduce_together(comm, list(found.values()), ReduceOp.SUM)
    return found
