"""DistributedSampler: partition, cover and shuffle, over many sizes; and equal to torch's."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, strategies as st
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler as TorchSampler

from distlib.training.sampler import DistributedSampler


@dataclass
class Place:
    """All that a sampler wants of a communicator."""

    rank: int
    world_size: int


def parts(length: int, world_size: int, epoch: int = 0, **options: Any) -> list[list[int]]:
    """The indices of every rank."""
    samplers = [DistributedSampler(Place(rank, world_size), range(length), **options) for rank in range(world_size)]  # type: ignore[arg-type]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    lists = [list(sampler) for sampler in samplers]
    assert [len(sampler) for sampler in samplers] == [len(indices) for indices in lists]
    return lists


def test_numbers_of_numpy() -> None:
    assert parts(10, 2, epoch=numpy.int64(2), seed=numpy.int64(3)) == parts(10, 2, epoch=2, seed=3)


SIZES = {"length": st.integers(1, 200), "world_size": st.integers(1, 17), "seed": st.integers(0, 99)}


@given(**SIZES, shuffle=st.booleans())
def test_every_sample_is_there_and_all_ranks_have_equally_many(
    length: int, world_size: int, seed: int, shuffle: bool
) -> None:
    lists = parts(length, world_size, shuffle=shuffle, seed=seed)
    together = sorted(itertools.chain(*lists))
    assert set(together) == set(range(length))
    assert {len(indices) for indices in lists} == {-(-length // world_size)}
    counts = torch.bincount(torch.tensor(together), minlength=length)
    assert counts.max() - counts.min() <= 1  # nothing is used twice before everything is used once


@given(**SIZES, shuffle=st.booleans())
def test_dropping_leaves_a_part_of_every_rank_and_no_sample_twice(
    length: int, world_size: int, seed: int, shuffle: bool
) -> None:
    if length < world_size:
        with pytest.raises(ValueError, match=f"{length} for {world_size} ranks"):
            parts(length, world_size, drop_last=True)
        return
    lists = parts(length, world_size, shuffle=shuffle, seed=seed, drop_last=True)
    together = list(itertools.chain(*lists))
    assert len(set(together)) == len(together) == length // world_size * world_size
    assert set(together) <= set(range(length))


@given(**SIZES)
def test_the_order_depends_on_seed_and_epoch_only(length: int, world_size: int, seed: int) -> None:
    assert parts(length, world_size, epoch=3, seed=seed) == parts(length, world_size, epoch=3, seed=seed)
    if length > 20:
        assert parts(length, world_size, epoch=0, seed=seed) != parts(length, world_size, epoch=1, seed=seed)
        assert parts(length, world_size, seed=seed) != parts(length, world_size, seed=seed + 100)
        assert parts(length, 1, seed=seed)[0] != list(range(length))


@given(**SIZES, epoch=st.integers(0, 5), shuffle=st.booleans(), drop_last=st.booleans())
def test_it_deals_out_what_torchs_sampler_does(
    length: int, world_size: int, seed: int, epoch: int, shuffle: bool, drop_last: bool
) -> None:
    if drop_last and length < world_size:
        return
    theirs = []
    for rank in range(world_size):
        options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "drop_last": drop_last}
        sampler = TorchSampler(range(length), world_size, rank, **options)  # type: ignore[arg-type, var-annotated]
        sampler.set_epoch(epoch)
        theirs.append(list(sampler))
    assert parts(length, world_size, epoch, shuffle=shuffle, seed=seed, drop_last=drop_last) == theirs


@pytest.mark.parametrize("workers", [0, 1])  # for rank 0 only: each of these processes imports torch
def test_it_works_with_torchs_data_loader(workers: int) -> None:
    data = TensorDataset(torch.arange(10))
    seen = []
    for rank in range(4):
        sampler = DistributedSampler(Place(rank, 4), data, seed=5)  # type: ignore[arg-type]
        started = workers if rank == 0 else 0
        context = "forkserver" if started else None
        loader = DataLoader(data, batch_size=2, sampler=sampler, num_workers=started, multiprocessing_context=context)
        seen += [value for (batch,) in loader for value in batch.tolist()]
    assert set(seen) == set(range(10)) and len(seen) == 12


def test_an_empty_data_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected at least one sample, got a data set of 0"):
        parts(0, 3)
