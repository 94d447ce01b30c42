"""Shards of parameters: complete, balanced, and refused where a server would get nothing."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from distlib.training.shards import flatten, shard_parameters, unflatten

SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=8).filter(lambda sizes: sum(sizes) >= 40)


@given(sizes=SIZES, num_servers=st.integers(1, 5), largest=st.sampled_from([None, 4, 40, 5_000]))
def test_every_element_has_one_server_and_all_have_about_as_much(
    sizes: list[int], num_servers: int, largest: int | None
) -> None:
    tensors = [torch.arange(size, dtype=torch.float32) for size in sizes]
    try:
        shards = shard_parameters(tensors, num_servers, largest)
    except ValueError:
        assert largest == 5_000 and sum(size > 0 for size in sizes) < num_servers
        return
    seen = [(piece.tensor, index) for shard in shards for piece in shard for index in range(piece.start, piece.stop)]
    assert sorted(seen) == [(number, index) for number, size in enumerate(sizes) for index in range(size)]
    loads = [sum(piece.stop - piece.start for piece in shard) for shard in shards]
    longest = max(piece.stop - piece.start for shard in shards for piece in shard)
    assert max(loads) - min(loads) <= longest
    assert largest is None or 4 * longest <= largest


def test_bytes_are_balanced_and_not_elements() -> None:
    tensors = [torch.zeros(100, dtype=torch.float64), torch.zeros(200, dtype=torch.float32)]
    assert [[piece.tensor for piece in shard] for shard in shard_parameters(tensors, 2, 800)] == [[0], [1]]


def test_flatten_and_back() -> None:
    tensors = [torch.randn(3, 5), torch.randn(7)]
    copies = [torch.zeros_like(tensor) for tensor in tensors]
    for shard in shard_parameters(tensors, 3, 16):
        unflatten(flatten(tensors, shard), copies, shard)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))


def test_tensors_may_lie_in_memory_in_any_order() -> None:
    tensors = [torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(3, 5).t()]
    copies = [torch.zeros_like(tensor) for tensor in tensors]
    assert not any(tensor.is_contiguous() for tensor in tensors + copies)
    for shard in shard_parameters(tensors, 3, 64):
        flat = flatten(tensors, shard)
        assert torch.equal(flat, flatten([tensor.contiguous() for tensor in tensors], shard))
        unflatten(flat, copies, shard)
    assert all(torch.equal(tensor, copy) for tensor, copy in zip(tensors, copies, strict=True))


@pytest.mark.parametrize(
    ("num_servers", "largest", "message"),
    [
        (0, None, "at least 1 server, got 0"),
        (9, None, "one piece for each of 9 servers, got 6"),
        (2, 3, "at least one element, 4 bytes, got 3"),
    ],
)
def test_plans_that_can_not_be_made(num_servers: int, largest: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shard_parameters([torch.zeros(2, 3)], num_servers, largest)
