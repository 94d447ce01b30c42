"""What functions of training are given is checked first; the error names the function, what it expected and got."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from distlib.training.mixing import complete, random_matchings, ring, rounds_for, static_exponential, torus
from distlib.training.parameter_server.sparse import key_ranges
from distlib.training.pipeline.cutting import measure_costs
from distlib.training.schedules import gpipe, most_live, time_schedule
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
    ],
)
def test_bad_arguments(call: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


def test_good_ones_pass() -> None:
    assert time_schedule(gpipe(2, 3)).seconds > 0 and most_live(gpipe(2, 3)) == [3, 3]
    assert ring(1) == [[]] and key_ranges(4, 2) == [range(0, 2), range(2, 4)]
