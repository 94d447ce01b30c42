"""What each call of torch.distributed does, built from send and receive.

torch hands over lists of tensors, or one tensor for all ranks; the collectives of this course work on the chunks of one
tensor, in place. Both come together here: a list of pieces, one for each rank, which need not have the same size.

    all_gather       piece r of every rank's list is filled by rank r                 pieces go once around the ring
    reduce_scatter   rank r gets the sum of everybody's piece r; no input is changed  sums go once around the ring

Every function gets the communicator of an announced call first (see `Communicator.within`), and writes only into what
its torch counterpart writes into. Costs are those of the algorithms in `distlib.collectives`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from distlib.collectives import all_reduce as reduce_all, all_to_all as exchange_in_pairs
from distlib.collectives.collective import unseen_by_autograd
from distlib.collectives.one_machine import choose_on_one_machine
from distlib.collectives.reduction import combine
from distlib.collectives.tree import tree_broadcast, tree_reduce
from distlib.communicator import Communicator, ReduceOp
from distlib.partition import flat_view, write_back
from distlib.worlds.real.process_group import ProcessGroupCommunicator

AllReduce = Callable[[Communicator, torch.Tensor, ReduceOp], None]


def default_all_reduce(comm: Communicator, tensor: torch.Tensor, op: ReduceOp) -> None:
    """A ring; between processes that share memory, for small tensors an algorithm of fewer messages.

    There each message takes a process that has to get a core: see collectives.one_machine. In virtual time it is always
    the ring, whose cost the lessons' formulas give.
    """
    shares = isinstance(comm, ProcessGroupCommunicator) and comm.shares_memory
    algorithm = choose_on_one_machine(comm.world_size, tensor.nbytes) if shares else "ring"
    reduce_all(comm, tensor, op, algorithm)


def all_reduce(comm: Communicator, tensors: Sequence[torch.Tensor], op: ReduceOp, algorithm: AllReduce) -> None:
    """Combine the tensors of all ranks, each with those of the same place, in place, by the given algorithm."""
    for tensor in tensors:
        with unseen_by_autograd(tensor):
            stored = in_memory_order(tensor)
            flat = flat_view(stored)
            algorithm(comm, flat, op)
            write_back(stored, flat)


def all_reduce_sparse(comm: Communicator, tensor: torch.Tensor) -> None:
    """Add up the sparse tensors (COO) of all ranks, in place: each rank's indices and values go to all others."""
    with torch.no_grad():
        own = tensor.detach().coalesce()
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(comm.world_size)]
        all_gather(comm, counts, torch.tensor([own.values().shape[0]]))
        total = torch.sparse_coo_tensor(own.indices()[:, :0], own.values()[:0], own.shape)
        indices = [own.indices().new_empty(own.sparse_dim(), int(count)) for count in counts]
        values = [own.values().new_empty(int(count), *own.values().shape[1:]) for count in counts]
        all_gather(comm, indices, own.indices())
        all_gather(comm, values, own.values())
        for where, what in zip(indices, values, strict=True):
            total = total + torch.sparse_coo_tensor(where, what, own.shape)
        tensor.copy_(total.coalesce())


def broadcast(comm: Communicator, tensors: Sequence[torch.Tensor], root: int) -> None:
    """Copy the tensors of rank `root` into those of all others."""
    for tensor in tensors:
        with unseen_by_autograd(tensor):
            stored = in_memory_order(tensor)
            flat = flat_view(stored)
            tree_broadcast(comm, flat, root)
            write_back(stored, flat)


def reduce(comm: Communicator, tensor: torch.Tensor, root: int, op: ReduceOp) -> None:
    """Combine the tensors of all ranks into that of rank `root`; the others stay as they are."""
    with unseen_by_autograd(tensor):
        flat = in_memory_order(tensor).reshape(-1).clone()
        tree_reduce(comm, flat, root, op)
        if comm.rank == root:
            in_memory_order(tensor).copy_(flat.view(in_memory_order(tensor).shape))


def all_gather(comm: Communicator, pieces: Sequence[torch.Tensor], own: torch.Tensor) -> None:
    """Fill pieces[r] with what rank r has as `own`, in a ring.

    Args:
        pieces: one for each rank, as large as that rank's own.
    """
    rank, size = comm.rank, comm.world_size
    with unseen_by_autograd(pieces[rank]):
        if not own.is_meta and pieces[rank].data_ptr() != own.data_ptr():
            pieces[rank].copy_(own.reshape(pieces[rank].shape))
        for step in range(size - 1):
            outgoing, incoming = pieces[(rank - step) % size], pieces[(rank - 1 - step) % size]
            comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)


def reduce_scatter(comm: Communicator, output: torch.Tensor, pieces: Sequence[torch.Tensor], op: ReduceOp) -> None:
    """Write the combination of everybody's piece r into the output of rank r, in a ring. No piece is changed.

    Two buffers of the size of a piece take turns: one holds what is sent, the other what comes.
    """
    rank, size = comm.rank, comm.world_size
    largest = max(pieces, key=torch.Tensor.numel)
    with unseen_by_autograd(output):
        buffers = [largest.new_empty(largest.shape) for _ in range(min(2, size - 1))]
        partial = pieces[(rank - 1) % size]
        for step in range(size - 1):
            mine = pieces[(rank - 2 - step) % size]
            incoming = buffers[step % 2]
            if mine.shape != incoming.shape:
                incoming = incoming.view(-1)[: mine.numel()].view(mine.shape)
            comm.exchange(partial, (rank + 1) % size, incoming, (rank - 1) % size)
            combine(incoming, mine, op)
            partial = incoming
        output.copy_(partial.reshape(output.shape))
        if op is ReduceOp.AVG:
            output.div_(size)


def gather(comm: Communicator, pieces: Sequence[torch.Tensor], own: torch.Tensor, root: int) -> None:
    """Fill pieces[r] of rank `root` with what rank r has as `own`. The other ranks have no pieces."""
    if comm.rank != root:
        comm.send(own, root)
        return
    for src, piece in enumerate(pieces):
        with unseen_by_autograd(piece):
            if src == root:
                piece.copy_(own.reshape(piece.shape))
            else:
                comm.recv(piece, src)


def scatter(comm: Communicator, output: torch.Tensor, pieces: Sequence[torch.Tensor], root: int) -> None:
    """Write piece r of rank `root` into the output of rank r. The other ranks have no pieces."""
    with unseen_by_autograd(output):
        if comm.rank != root:
            comm.recv(output, root)
            return
        for dst, piece in enumerate(pieces):
            if dst == root:
                output.copy_(piece.reshape(output.shape))
            else:
                comm.send(piece, dst)


def all_to_all(comm: Communicator, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """Write inputs[r] of every rank s into outputs[s] of rank r, in pairs."""
    exchange_in_pairs(comm, outputs, inputs)


def in_memory_order(tensor: torch.Tensor) -> torch.Tensor:
    """A view whose dimensions come in the order in which the elements lie in memory: channels_last needs no copy.

    Autograd does not count what is written into it, so that a program may overwrite by a call what its backward pass
    still reads. So it is in torch's own backends, for all calls but all_gather, gather and reduce_scatter.
    """
    strides = tensor.stride()
    order = sorted(range(tensor.ndim), key=lambda dimension: -strides[dimension])
    return tensor.data.permute(order)
