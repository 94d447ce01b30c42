"""The numbers of the cases in which every rank has one tensor, and whose values are inside a sum."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from distlib.checks.plays.tensor import LAYOUTS, lay_out
from distlib.checks.rules.sums import contents, exact
from distlib.checks.tensor_cases import TensorCase, expected_on, rank_input, tensor_cases

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8)


def case_of(collective: str = "all_reduce", **changes: Any) -> TensorCase:
    fields = dict(world_size=3, length=8, dtype=torch.float32, layout="contiguous", seed=1)
    return TensorCase(collective, **{**fields, **changes})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("world_size", [1, 3, 8])
def test_sums_are_exact_in_any_order(dtype: torch.dtype, world_size: int) -> None:
    case = case_of(dtype=dtype, world_size=world_size, length=50)
    inputs = [rank_input(case, rank) for rank in range(world_size)]
    forward, backward = torch.zeros(50, dtype=dtype), torch.zeros(50, dtype=dtype)
    for values, other in zip(inputs, reversed(inputs), strict=True):
        forward += values
        backward += other
    assert torch.equal(forward, backward)
    assert torch.equal(exact(forward), torch.stack([exact(values) for values in inputs]).sum(0))
    assert torch.equal(forward, expected_on(case, 0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("dtype", "narrower"),
    [(torch.int64, torch.float64), (torch.int32, torch.float32), (torch.float64, torch.float32)],
)
def test_a_detour_through_a_narrower_dtype_loses_digits(dtype: torch.dtype, narrower: torch.dtype) -> None:
    for rank in range(3):
        values = rank_input(case_of(dtype=dtype), rank)
        assert not torch.equal(values.to(narrower).to(dtype), values)
        assert values[:-1].abs().max() <= 40  # only one element is not easy to read


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=6))
def test_one_element_tells_whose_values_are_inside(weights: list[int]) -> None:
    case = case_of(world_size=len(weights))
    inputs = [exact(rank_input(case, rank))[3:4] for rank in range(len(weights))]
    found = sum((weight * values for weight, values in zip(weights, inputs, strict=True)), torch.zeros(1).double())
    assert contents(found, inputs) == tuple(weights)
    assert contents(found + 0.5, inputs) is None


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != "scalar"])
@pytest.mark.parametrize("length", [0, 1, 7, 12])
def test_layouts_hold_the_values_in_order(layout: str, length: int) -> None:
    values = torch.arange(1.0, length + 1)
    memory, view = lay_out(values, layout)
    assert torch.equal(view.flatten(), values)
    assert memory.dim() == 1
    if length == 12:
        assert view.is_contiguous() == (layout in ("contiguous", "matrix", "block"))
        assert view.dim() == {"contiguous": 1, "strided": 1, "block": 3}.get(layout, 2)


def test_what_each_rank_must_hold() -> None:
    inputs = [rank_input(case_of(), rank) for rank in range(3)]
    expected = {
        "all_gather": [torch.cat([inputs[0][:3], inputs[1][3:6], inputs[2][6:]])] * 3,
        "shift": [inputs[2], inputs[0], inputs[1]],
        "broadcast": [inputs[1]] * 3,
        "scatter": inputs,
        "reduce": [None, sum(inputs), None],
    }
    for collective, by_rank in expected.items():
        found = [expected_on(case_of(collective, root=1), rank) for rank in range(3)]
        assert [str(values) for values in found] == [str(values) for values in by_rank], collective
    assert case_of("all_gather").judged_chunks(1) == [0, 1, 2]
    assert case_of("reduce_scatter").judged_chunks(1) == [1]
    assert [case_of("reduce", root=1).judged_chunks(rank) for rank in range(3)] == [[], [0, 1, 2], []]


def test_a_scalar_has_one_element() -> None:
    cases = tensor_cases("all_reduce", world_sizes=(2,), lengths=(1, 4), layouts=("contiguous", "scalar"), seed=1)
    assert [(case.facts.length, case.facts.layout) for case in cases] == [
        (1, "contiguous"), (1, "scalar"), (4, "contiguous"),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="layouts: expected one of contiguous, scalar"):
        list(tensor_cases("all_reduce", world_sizes=(2,), lengths=(1,), layouts=("round",), seed=1))
