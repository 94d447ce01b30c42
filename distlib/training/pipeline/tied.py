"""Weights that two stages share, such as an embedding and the output layer of a language model.

    stage 0 on rank 0    weight ──── gradient ◄─┐
                                                ├ all-reduce over the ranks that have it: the sum on both
    stage 3 on rank 3    weight ──── gradient ◄─┘

Each rank has its own copy. Copies that begin equal and take the same steps along the same gradients stay equal. The
cost is one all-reduce of the weight's size per step: two ranks in a ring send each other 2 messages, together as many
bytes as the weight has. (D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
Megatron-LM", SC 2021, train models whose first and last stage share an embedding.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from distlib.arguments import checked
from distlib.collectives import all_reduce
from distlib.collectives.group import RankGroup
from distlib.communicator import Communicator


def tied_weights(stages: Sequence[nn.Module], rank_of: Mapping[int, int]) -> list[tuple[nn.Parameter, list[int]]]:
    """The parameters that stages on several ranks share, each with these ranks. In the same order everywhere."""
    ranks: dict[nn.Parameter, set[int]] = {}
    for stage, module in enumerate(stages):
        for parameter in module.parameters():
            if parameter.requires_grad:
                ranks.setdefault(parameter, set()).add(rank_of[stage])
    return [(parameter, sorted(owners)) for parameter, owners in ranks.items() if len(owners) > 1]


@checked
def sum_up_gradients(comm: Communicator, tied: Sequence[tuple[nn.Parameter, list[int]]]) -> None:
    """Add up the gradients of shared weights over the ranks that have them, in place."""
    for parameter, ranks in tied:
        if comm.rank in ranks:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            all_reduce(RankGroup(comm, ranks), parameter.grad)
