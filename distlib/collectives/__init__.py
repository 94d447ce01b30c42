"""Operations in which every rank takes part, built from send and receive only. One algorithm per file."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch

from distlib.collectives.bruck import bruck_all_gather
from distlib.collectives.chain import chain_broadcast, chain_reduce
from distlib.collectives.cluster_of import cluster_of, has_network
from distlib.collectives.collective import ALGORITHMS, check_call
from distlib.collectives.dissemination import barrier
from distlib.collectives.double_tree import double_tree_all_reduce
from distlib.collectives.flat import flat_broadcast, flat_reduce
from distlib.collectives.grid import grid_all_reduce
from distlib.collectives.halving_doubling import halving_doubling_all_reduce
from distlib.collectives.hierarchical import hierarchical_all_reduce
from distlib.collectives.naive import naive_all_reduce
from distlib.collectives.one_machine import choose_on_one_machine
from distlib.collectives.pairwise import all_to_all
from distlib.collectives.recursive_doubling import recursive_doubling_all_gather
from distlib.collectives.recursive_halving import recursive_halving_reduce_scatter
from distlib.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from distlib.collectives.scatter_gather import gather, scatter
from distlib.collectives.tree import tree_all_reduce, tree_broadcast, tree_reduce
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.network import choose_all_reduce

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "bruck_all_gather",
    "chain_broadcast",
    "chain_reduce",
    "double_tree_all_reduce",
    "flat_broadcast",
    "flat_reduce",
    "gather",
    "grid_all_reduce",
    "halving_doubling_all_reduce",
    "hierarchical_all_reduce",
    "naive_all_reduce",
    "recursive_doubling_all_gather",
    "recursive_halving_reduce_scatter",
    "reduce",
    "reduce_scatter",
    "ring_all_gather",
    "ring_all_reduce",
    "ring_reduce_scatter",
    "scatter",
    "tree_all_reduce",
    "tree_broadcast",
    "tree_reduce",
]

_log = logging.getLogger("distlib")


def broadcast(comm: Communicator, tensor: torch.Tensor, root: int = 0, algorithm: str = "tree") -> None:
    """Copy the tensor of rank `root` to all others, in place.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. Overwritten, except at the
            root.
        root: the rank that has the data.
        algorithm: "tree" (⌈log₂ N⌉ rounds), "flat" (the root sends to every other rank) or "chain" (from rank to rank,
            in blocks; for large tensors).

    Raises:
        ValueError: an unknown algorithm, or no rank `root`.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    _named("broadcast", algorithm, comm, tensor)(comm, tensor, root)


def reduce(
    comm: Communicator,
    tensor: torch.Tensor,
    root: int = 0,
    op: ReduceOp = ReduceOp.SUM,
    algorithm: str = "tree",
) -> None:
    """Combine the tensors of all ranks element by element; rank `root` ends with the result, in place.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. On the other ranks it may hold
            a partial result afterwards.
        root: the rank that gets the result.
        op: how two elements are combined.
        algorithm: "tree" (⌈log₂ N⌉ steps), "flat" (every other rank sends to the root) or "chain" (from rank to rank,
            in blocks; for large tensors).

    Raises:
        ValueError: an unknown algorithm, no rank `root`, or an `op` that has no meaning for the dtype.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    _named("reduce", algorithm, comm, tensor)(comm, tensor, root, op)


def all_gather(comm: Communicator, tensor: torch.Tensor, algorithm: str = "ring") -> None:
    """Give every rank the chunks of all others, in place.

    Before, chunk `comm.rank` of the flattened tensor, as torch.tensor_split cuts it, holds this rank's part; afterwards
    every chunk is everywhere.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. Overwritten.
        algorithm: "ring" (N−1 rounds), "recursive_doubling" (log₂ N rounds; where N is not a power of two it is
            "bruck") or "bruck" (⌈log₂ N⌉ rounds). The total number of bytes is the same for all three.

    Raises:
        ValueError: an unknown algorithm.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    _named("all_gather", algorithm, comm, tensor)(comm, tensor)


def reduce_scatter(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, algorithm: str = "ring"
) -> None:
    """Combine the tensors of all ranks element by element, and leave each rank with one chunk of the result, in place.

    Afterwards chunk `comm.rank` of the flattened tensor, as torch.tensor_split cuts it, holds its result; the other
    chunks hold partial results.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. Overwritten.
        op: how two elements are combined.
        algorithm: "ring" (N−1 rounds) or "recursive_halving" (log₂ N rounds; more bytes unless N is a power of two).

    Raises:
        ValueError: an unknown algorithm, or an `op` that has no meaning for the dtype.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    _named("reduce_scatter", algorithm, comm, tensor)(comm, tensor, op)


def all_reduce(
    comm: Communicator,
    tensor: torch.Tensor,
    op: ReduceOp = ReduceOp.SUM,
    algorithm: str = "ring",
    async_op: bool = False,
) -> Work | None:
    """Combine the tensors of all ranks element by element; every rank ends with the result, in place.

    Args:
        tensor: any shape, the same number of elements and the same dtype on every rank. Overwritten.
        op: how two elements are combined.
        algorithm: "ring" (least bytes per rank), "naive" (through rank 0), "tree", "halving_doubling", "double_tree",
            "grid", "hierarchical" (by nodes), or "auto": where the links are known, in a simulated or a paced world,
            the fastest by `network.choose_all_reduce`, else a rule of thumb for one machine (see `one_machine`). Rank 0
            logs what was chosen and why, as INFO of the logger "distlib".
        async_op: begin it in the background, and return at once; see `Communicator.start`.

    Returns:
        With `async_op` its handle, else None. Leave `tensor` alone until the handle's `wait` has returned.

    Raises:
        ValueError: an unknown algorithm, or an `op` that has no meaning for the dtype.
        MessageMismatch: tensors of different length or dtype on two ranks.
    """
    if async_op:  # what is wrong is said at the caller's line, not in the background
        check_call("all_reduce", comm, tensor, {"op": op})
        if algorithm != "auto":
            _named("all_reduce", algorithm, comm, tensor)
        return comm.start(all_reduce, tensor.detach(), op, algorithm)
    if algorithm == "auto":
        check_call("all_reduce", comm, tensor, {"op": op})
        algorithm = _choose(comm, tensor)
    _named("all_reduce", algorithm, comm, tensor)(comm, tensor, op)
    return None


def _choose(comm: Communicator, tensor: torch.Tensor) -> str:
    """The fastest all-reduce, as far as is known. Rank 0 logs it."""
    if has_network(comm) or comm.device.type != "cpu":
        choice = choose_all_reduce(cluster_of(comm), tensor.numel(), tensor.element_size())
        algorithm, reason = choice.algorithm, str(choice)
    else:
        nbytes = tensor.numel() * tensor.element_size()
        algorithm = choose_on_one_machine(comm.world_size, nbytes)
        reason = f"{algorithm} for {nbytes:,} bytes on {comm.world_size} ranks of one machine"
    if comm.rank == 0:
        _log.info("all_reduce chose %s", reason)
    return algorithm


def _named(name: str, algorithm: str, comm: Communicator, tensor: torch.Tensor) -> Callable[..., None]:
    """The function that `@collective(name, algorithm)` stands above.

    Raises:
        TypeError, ValueError: there is none; or what comes before it in the call, `comm` or `tensor`, is wrong.
    """
    known = ALGORITHMS[name]
    if not isinstance(algorithm, str) or algorithm not in known:
        check_call(name, comm, tensor, {})
        names = sorted([*known, "auto"] if name == "all_reduce" else known)
        raise ValueError(f"{name} expected one of the algorithms {', '.join(names)}, got {algorithm!r}")
    return known[algorithm]
