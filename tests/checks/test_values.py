"""How checks compare and show tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from distlib.checks.rules.returns import same
from distlib.checks.rules.values import compared, explain_form, in_a_line, is_close, is_equal

ONES = torch.ones(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("found", "equal", "close"),
    [
        (ONES.clone(), True, True),
        (ONES * (1 + 1e-10), False, True),
        (ONES * (1 + 1e-8), False, False),
        (ONES.float(), False, False),
        (ONES[:2], False, False),
        (ONES[:1], False, False),  # not broadcast
        ([1.0, 1.0, 1.0], False, False),
        (None, False, False),
    ],
)
def test_what_is_equal_and_what_is_close(found: object, equal: bool, close: bool) -> None:
    assert is_equal(found, ONES) is equal
    assert is_close(found, ONES) is close


def test_tolerances_and_dtypes_can_be_chosen() -> None:
    assert is_close(ONES * 1.01, ONES, relative=0.1) and not is_close(ONES * 0.01, ONES * 0, relative=0.1)
    assert is_close(ONES * 0.01, ONES * 0, absolute=0.1)
    assert is_close(ONES.int(), ONES, any_dtype=True) and not is_close(ONES.int()[:2], ONES, any_dtype=True)


def test_nothing_is_like_nothing_only() -> None:
    assert is_equal(None, None) and is_close(None, None)
    assert not is_equal(ONES, None) and not is_close([], None)


@pytest.mark.parametrize("found", [torch.tensor(0.5), torch.tensor([0.5], dtype=torch.float64)])
def test_a_tensor_is_no_python_number(found: torch.Tensor) -> None:
    assert not same(found, 0.5) and not same([found], [0.5]) and not same(torch.ones(3), 1)
    assert "tensor.item() is a float" in explain_form(found, 0.5)
    assert explain_form(0.25, 0.5) == explain_form(ONES, 0.5) == explain_form(None, 0.5) == ""


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (torch.tensor([0.5, -1.25]), "[0.5, -1.25], shape [2], float32"),
        (torch.arange(8).reshape(2, 4), "[0, 1, 2, 3, 4, 5, …], shape [2, 4], int64"),
        (torch.tensor(1 / 3, dtype=torch.float64), "[0.33333], shape [], float64"),
        (torch.empty(0), "[], shape [0], float32"),
        ([ONES], "a list"),
        (None, "None"),
        (0.5, "0.5"),
    ],
)
def test_a_value_is_shown_in_a_line(value: Any, line: str) -> None:
    assert in_a_line(value) == line
    assert compared(value, None) == (f"expected {line}", "found    None")


def test_numbers_that_round_alike_are_shown_from_where_they_differ_or_with_more_digits() -> None:
    right, found = torch.ones(9, dtype=torch.float64), torch.ones(9, dtype=torch.float64) + 1e-7
    assert compared(right, found)[1].startswith("found    [1.0000001, 1.0000001")
    found[7] = 2
    assert compared(right, found) == ("expected [1, 1]   from element 7 on", "found    [2, 1]")
