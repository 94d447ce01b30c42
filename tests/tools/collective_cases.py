"""What each collective is to do, and with which options it is tested: for real ranks and for simulated ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce as fold

import torch

from distlib import Communicator, ReduceOp, SimulatedWorld, World, collectives
from distlib.network import Traffic

COMBINE = {
    ReduceOp.SUM: torch.add,
    ReduceOp.AVG: torch.add,
    ReduceOp.PRODUCT: torch.mul,
    ReduceOp.MIN: torch.minimum,
    ReduceOp.MAX: torch.maximum,
}
Options = dict[str, int]


def reference(tensors: list[torch.Tensor], op: ReduceOp = ReduceOp.SUM) -> torch.Tensor:
    result = fold(COMBINE[op], tensors)
    return result / len(tensors) if op is ReduceOp.AVG else result


def chunk(tensor: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    return torch.tensor_split(tensor.reshape(-1), size)[rank]


def is_all_reduced(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    return all(torch.equal(tensor, reference(before)) for tensor in after)


def is_reduced(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    return torch.equal(after[options["root"]], reference(before))


def is_broadcast(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    return all(torch.equal(tensor, before[options["root"]]) for tensor in after)


def is_scattered(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    root, size = options["root"], len(before)
    for rank in range(size):
        expected = before[rank].clone()
        chunk(expected, size, rank).copy_(chunk(before[root], size, rank))
        if not torch.equal(after[rank], expected):
            return False
    return True


def is_gathered(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    root, size = options["root"], len(before)
    expected = torch.cat([chunk(before[rank], size, rank) for rank in range(size)])
    others = all(torch.equal(after[rank], before[rank]) for rank in range(size) if rank != root)
    return others and torch.equal(after[root], expected)


def is_all_gathered(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    size = len(before)
    expected = torch.cat([chunk(before[rank], size, rank) for rank in range(size)])
    return all(torch.equal(tensor, expected) for tensor in after)


def is_reduce_scattered(before: list[torch.Tensor], after: list[torch.Tensor], options: Options) -> bool:
    size = len(before)
    return torch.equal(torch.cat([chunk(after[rank], size, rank) for rank in range(size)]), reference(before))


Check = Callable[[list[torch.Tensor], list[torch.Tensor], Options], bool]
OptionsBySize = Callable[[int], list[Options]]


def no_options(size: int) -> list[Options]:
    return [{}]


def roots(size: int) -> list[Options]:
    return [{"root": root} for root in sorted({0, size // 2, size - 1})]


def roots_and_blocks(size: int) -> list[Options]:
    return [{**root, "blocks": blocks} for root in roots(size) for blocks in (1, 3, 8)]


def divisors(name: str) -> OptionsBySize:
    return lambda size: [{name: part} for part in range(1, size + 1) if size % part == 0]


COLLECTIVES: dict[str, tuple[Check, OptionsBySize]] = {
    "flat_broadcast": (is_broadcast, roots),
    "tree_broadcast": (is_broadcast, roots),
    "chain_broadcast": (is_broadcast, roots_and_blocks),
    "flat_reduce": (is_reduced, roots),
    "tree_reduce": (is_reduced, roots),
    "chain_reduce": (is_reduced, roots_and_blocks),
    "scatter": (is_scattered, roots),
    "gather": (is_gathered, roots),
    "ring_all_gather": (is_all_gathered, no_options),
    "recursive_doubling_all_gather": (is_all_gathered, no_options),
    "bruck_all_gather": (is_all_gathered, no_options),
    "ring_reduce_scatter": (is_reduce_scattered, no_options),
    "recursive_halving_reduce_scatter": (is_reduce_scattered, no_options),
    "naive_all_reduce": (is_all_reduced, no_options),
    "ring_all_reduce": (is_all_reduced, no_options),
    "tree_all_reduce": (is_all_reduced, no_options),
    "halving_doubling_all_reduce": (is_all_reduced, no_options),
    "double_tree_all_reduce": (is_all_reduced, lambda size: [{"blocks": blocks} for blocks in (1, 2, 3, 8)]),
    "grid_all_reduce": (is_all_reduced, divisors("columns")),
    "hierarchical_all_reduce": (is_all_reduced, divisors("ranks_per_node")),
}


def inputs(size: int, length: int, dtype: torch.dtype = torch.int64, high: int = 100) -> list[torch.Tensor]:
    """Whole numbers from 1 on, different on every rank."""
    generator = torch.Generator().manual_seed(100 * length + size)
    return [torch.randint(1, high, (length,), generator=generator).to(dtype) for _ in range(size)]


def call(comm: Communicator, name: str, tensors: list[torch.Tensor], options: Options, *op: ReduceOp) -> torch.Tensor:
    mine = tensors[comm.rank]
    getattr(collectives, name)(comm, mine, **options, **({"op": op[0]} if op else {}))
    return mine


def sent(world: World | SimulatedWorld) -> Traffic:
    return Traffic(world.trace.messages_sent, world.trace.bytes_sent, world.trace.rounds)
