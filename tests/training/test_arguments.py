"""What functions of training are given is checked first; the error names the function, what it expected and got."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import pytest
import torch
from torch import nn

from distlib import SimulatedWorld
from distlib.training.data_parallel import loss_of_outputs
from distlib.training.gossip import consensus_error
from distlib.training.mixing import complete, random_matchings, ring, rounds_for, static_exponential, torus
from distlib.training.parameter_server import keep_in_file
from distlib.training.parameter_server.sparse import key_ranges
from distlib.training.pipeline.cutting import cut_by_cost, measure_costs
from distlib.training.schedules import gpipe, most_live, time_schedule
from distlib.training.tensor_parallel import (
    ColumnParallelLinear,
    GroupedQueryAttention,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerLayer,
    RowParallelLinear,
    VocabularyParallelEmbedding,
)
from distlib.training.tensor_parallel.operators import copy_to_ranks, scatter_sum

ONES = torch.ones(2)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: ring("4"), ValueError, "ring expected an integer as ranks"),
        (lambda: complete(2.5), ValueError, "complete expected an integer as ranks"),
        (lambda: static_exponential(None), ValueError, "static_exponential expected an integer as ranks"),
        (lambda: torus(2, "3"), ValueError, "torus expected an integer as columns"),
        (lambda: random_matchings(4, "x", 1), ValueError, "random_matchings expected an integer as rounds"),
        (lambda: rounds_for("a", 0.5), TypeError, "rounds_for expected a torch.Tensor as matrix"),
        (
            lambda: rounds_for(ONES, 0.5),
            ValueError,
            "rounds_for expected a square matrix as matrix, got a tensor of 2 ",
        ),
        (
            lambda: time_schedule(5),
            TypeError,
            "time_schedule expected for each rank a list of its actions, such as gpipe(4, 8)",
        ),
        (lambda: most_live([[1]]), TypeError, "most_live expected for each rank a list of its actions, such as gpipe"),
        (lambda: copy_to_ranks(ONES, None), TypeError, "copy_to_ranks expected the communicator of its rank as comm"),
        (lambda: scatter_sum(None, [1]), TypeError, "scatter_sum expected the communicator of its rank as comm"),
        (lambda: key_ranges("4", 2), ValueError, "key_ranges expected an integer as num_rows"),
        (
            lambda: measure_costs(torch.nn.Sequential(torch.nn.Linear(2, 2)), [1, 2]),
            TypeError,
            "measure_costs expected a torch.Tensor as inputs, got a list of 2 ints",
        ),
        (lambda: cut_by_cost([1, math.nan, 2], 2), ValueError, "number of at least 0 as costs[1], got costs[1]=nan"),
        (lambda: cut_by_cost([1, 2], 2.0), ValueError, "cut_by_cost expected an integer of at least 1 as num_stages"),
        (lambda: consensus_error([]), ValueError, "expected a tensor of each rank, all of one size, got none"),
        (
            lambda: consensus_error([ONES, ONES, torch.ones(3)]),
            ValueError,
            "expected a tensor of each rank, all of one size, got tensors of 2 and 3 numbers",
        ),
        (lambda: keep_in_file("server.pt", every="2"), ValueError, "expected an integer of at least 1 as every, got"),
        (
            lambda: loss_of_outputs(torch.ones(3, 2), torch.zeros(3), lambda outputs, labels: outputs.sum(dim=1)),
            ValueError,
            "expected one loss for the whole batch, got a tensor of shape (3,)",
        ),
        (
            lambda: loss_of_outputs(torch.ones(3, 2), torch.zeros(3), lambda outputs, labels: outputs.sum().item()),
            TypeError,
            "loss_of_outputs expected a torch.Tensor from loss_function, got the float 6.0",
        ),
    ],
)
def test_bad_arguments(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        ColumnParallelLinear,
        RowParallelLinear,
        VocabularyParallelEmbedding,
        ParallelMLP,
        lambda world, *sizes: ParallelAttention(world, *sizes),
        lambda world, *sizes: GroupedQueryAttention(world, *sizes, 2),
        lambda world, *sizes: ParallelTransformerLayer(world, *sizes, 2),
    ],
)
def test_a_layer_is_made_on_a_rank(make: Callable[..., nn.Module]) -> None:
    with pytest.raises(TypeError, match="expected the communicator of its rank as comm, got a SimulatedWorld: call it"):
        make(SimulatedWorld(2), 8, 4)


def test_good_ones_pass() -> None:
    assert cut_by_cost([1, 2, 3], numpy.int64(2)) == cut_by_cost(numpy.array([1.0, 2, 3]), 2) == [range(2), range(2, 3)]
    assert time_schedule(gpipe(2, 3)).seconds > 0 and most_live(gpipe(2, 3)) == [3, 3]
    assert ring(1) == [[]] and key_ranges(4, 2) == [range(0, 2), range(2, 4)]
