"""Programs of plain torch for the tests: each takes torch.distributed, and returns what it has computed on its rank."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Program = Callable[[Any], Any]


def reductions(dist: Any) -> list[torch.Tensor]:
    """all_reduce with every reduction, dtype and layout; reduce; also when nobody waits at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found = []
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
            tensor = (torch.arange(7) % 3 + rank).to(dtype)
            dist.all_reduce(tensor, op=op)
            found.append(tensor)
    images = torch.arange(24.0).view(1, 2, 3, 4).add(rank).contiguous(memory_format=torch.channels_last)
    dist.all_reduce(images)
    work = dist.all_reduce(later := torch.full((5,), float(rank)), async_op=True)
    assert work.wait()
    dist.reduce(at_root := torch.full((3,), rank + 1.0), dst=size - 1)
    dist.all_reduce(empty := torch.zeros(0))
    dist.all_reduce(number := torch.tensor(2.0))
    return [*found, images, later, at_root if rank == size - 1 else number, empty, number]


def copies(dist: Any) -> list[torch.Tensor]:
    """broadcast, all_gather, gather and scatter in their forms."""
    rank, size = dist.get_rank(), dist.get_world_size()
    own = torch.arange(6.0).view(2, 3) + 10 * rank
    dist.broadcast(sent := own.clone(), src=size - 1)
    gathered = [torch.zeros(2, 3) for _ in range(size)]
    dist.all_gather(gathered, own)
    whole = torch.zeros(2 * size, 3)
    dist.all_gather_into_tensor(whole, own)
    many = [[torch.zeros(2, 3), torch.zeros(1)] for _ in range(size)]
    dist.all_gather_coalesced(many, [own, own[0, :1]])
    at_root = [torch.zeros(2, 3) for _ in range(size)] if rank == 1 else None
    dist.gather(own, at_root, dst=1)
    piece = torch.zeros(2, 3)
    dist.scatter(piece, [own + each for each in range(size)] if rank == 0 else None, src=0)
    return [sent, *gathered, whole, many, *(at_root or []), piece]


def exchanges(dist: Any) -> list[torch.Tensor]:
    """All-to-all in its forms."""
    rank, size = dist.get_rank(), dist.get_world_size()
    own = torch.arange(6.0).view(2, 3) + 10 * rank
    swapped = [torch.zeros(2, 3) for _ in range(size)]
    dist.all_to_all(swapped, [own + each for each in range(size)])
    rows = torch.arange(float(sum(range(1, size + 1)))) + 100 * rank
    mine = torch.zeros(size * (rank + 1))
    dist.all_to_all_single(mine, rows, [rank + 1] * size, list(range(1, size + 1)))
    return [*swapped, mine]


def scattered_sums(dist: Any) -> list[torch.Tensor]:
    """reduce_scatter in its forms. The inputs stay as they are."""
    rank, size = dist.get_rank(), dist.get_world_size()
    inputs = [torch.full((3,), float(rank * each)) for each in range(size)]
    before = [each.clone() for each in inputs]
    dist.reduce_scatter(output := torch.zeros(3), inputs)
    assert all(map(torch.equal, inputs, before))
    whole = torch.arange(2.0 * size) * (rank + 1)
    dist.reduce_scatter_tensor(part := torch.zeros(2), whole)
    return [output, part, whole]


def messages(dist: Any) -> list[Any]:
    """send, recv from anyone, isend and irecv with tags, batch_isend_irecv."""
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    received = torch.zeros(2)
    if rank == 0:
        dist.send(torch.ones(2), right)
        source = dist.recv(received)
    else:
        source = dist.recv(received, left)
        dist.send(received + 1, right)
    first, second = torch.zeros(1), torch.zeros(1)
    waiting = [dist.irecv(second, left, tag=2), dist.irecv(first, left, tag=1)]
    waiting += [dist.isend(torch.tensor([10.0 + rank]), right, tag=1), dist.isend(torch.tensor([20.0]), right, tag=2)]
    for work in waiting:
        work.wait()
    both = torch.zeros(1)
    given = [dist.P2POp(dist.isend, torch.tensor([5.0 + rank]), right), dist.P2POp(dist.irecv, both, left)]
    for work in dist.batch_isend_irecv(given):
        work.wait()
    return [received, source, first, second, both]


def objects(dist: Any) -> list[Any]:
    """Objects of Python."""
    rank, size = dist.get_rank(), dist.get_world_size()
    everybody = [None] * size
    dist.all_gather_object(everybody, {"rank": rank})
    told = [("from", rank)]
    dist.broadcast_object_list(told, src=1)
    handed: list[Any] = [None]
    dist.scatter_object_list(handed, [f"for {each}" for each in range(size)] if rank == 0 else None, src=0)
    collected = [None] * size if rank == 0 else None
    dist.gather_object(rank**2, collected)
    dist.barrier()
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=60))
    return [everybody, told, handed, collected]


def groups(dist: Any) -> list[Any]:
    """Groups of new_group and of a mesh; their ranks are numbered anew."""
    rank, size = dist.get_rank(), dist.get_world_size()
    even, odd = dist.new_group(list(range(0, size, 2))), dist.new_group(list(range(1, size, 2)))
    mine = even if rank % 2 == 0 else odd
    dist.all_reduce(total := torch.tensor([float(rank)]), group=mine)
    dist.broadcast(sent := torch.tensor([float(rank)]), src=2 if rank % 2 == 0 else 3, group=mine)
    mesh = dist.device_mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(across := torch.tensor([float(rank)]), group=mesh.get_group("dp"))
    dist.all_reduce(along := torch.tensor([float(rank)]), group=mesh.get_group("tp"))
    return [total, sent, across, along, dist.get_process_group_ranks(mine), dist.get_rank(mine)]


def functional(dist: Any) -> list[torch.Tensor]:
    """The functional collectives, which DTensor uses."""
    from torch.distributed import _functional_collectives as collectives

    rank, world = dist.get_rank(), dist.group.WORLD
    own = torch.arange(8.0) + rank
    return [
        collectives.all_reduce(own, "sum", world) + 0,
        collectives.all_gather_tensor(own, 0, world) + 0,
        collectives.reduce_scatter_tensor(own, "sum", 0, world) + 0,
        collectives.all_to_all_single(own, None, None, world) + 0,
        collectives.broadcast(own, 2, world) + 0,
    ]


def model(seed: int = 0) -> nn.Sequential:
    """Three layers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))


def batch(rank: int) -> torch.Tensor:
    """A rank's own samples."""
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(rank))


def ddp(dist: Any) -> list[torch.Tensor]:
    """torch's DDP: three steps, the first with accumulated gradients, in several buckets."""
    rank = dist.get_rank()
    replica = nn.parallel.DistributedDataParallel(model(rank).double(), bucket_cap_mb=0.0005)
    optimizer = torch.optim.Adam(replica.parameters(), 1e-2)
    with replica.no_sync():
        replica(batch(rank).double()).square().mean().backward()
    for step in range(3):
        replica(batch(rank + 10 * step).double()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [each.detach() for each in replica.parameters()]


def sharded(dist: Any) -> list[torch.Tensor]:
    """torch's fully_shard: three steps, and the whole parameters."""
    from torch.distributed.fsdp import fully_shard

    rank, mesh = dist.get_rank(), dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    whole = model().double()  # Adam divides by small numbers, so that float32 would show the order of sums
    for layer in whole:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    optimizer = torch.optim.Adam(whole.parameters(), 1e-2)
    for step in range(3):
        whole(batch(rank + 10 * step).double()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [each.full_tensor().detach() for each in whole.parameters()]


def tensor_parallel(dist: Any) -> list[torch.Tensor]:
    """torch's parallelize_module in one dimension of a mesh of two."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.device_mesh.init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    whole = model()
    parallelize_module(whole, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    output = whole(batch(0))
    output.square().mean().backward()
    return [output.detach(), *[each.grad.full_tensor() for each in whole[0].parameters()]]


def pipelined(dist: Any) -> list[torch.Tensor]:
    """torch's 1F1B, one stage a rank."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    stages = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(size)]
    stage = PipelineStage(stages[rank], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=6, loss_fn=lambda output, target: (output - target).square().mean())
    inputs, targets = torch.randn(12, 8), torch.randn(12, 8)
    losses: list[torch.Tensor] = []
    given = {"target": targets, "losses": losses} if rank == size - 1 else {}
    schedule.step(*([inputs] if rank == 0 else []), **given)
    return [*[each.grad for each in stages[rank].parameters()], *[loss.detach() for loss in losses]]


def overwritten(dist: Any) -> list[bool]:
    """Which calls let autograd know that they write: only after the others a backward pass may read what was saved."""
    rank, size = dist.get_rank(), dist.get_world_size()
    calls: tuple[Callable[[torch.Tensor], Any], ...] = (
        dist.all_reduce,
        lambda saved: dist.all_reduce(saved, async_op=True).wait(),
        lambda saved: dist.broadcast(saved, src=1),
        lambda saved: dist.reduce(saved, dst=0),
        lambda saved: dist.all_gather(
            [*torch.zeros(rank, size), saved, *torch.zeros(size - 1 - rank, size)], saved + 1
        ),
        lambda saved: dist.gather(saved + 1, [saved, *torch.zeros(size - 1, size)] if rank == 0 else None, dst=0),
        lambda saved: dist.scatter(saved, [*torch.ones(size, size)] if rank == 0 else None, src=0),
        lambda saved: dist.reduce_scatter(saved, [*torch.ones(size, size)]),
        lambda saved: dist.reduce_scatter_tensor(saved, torch.ones(size * size)),
        lambda saved: dist.all_to_all_single(saved, torch.ones(size)),
        lambda saved: dist.recv(saved, src=1) if rank == 0 else dist.send(torch.ones(size), dst=0) if rank == 1 else 0,
    )
    found = []
    for call in calls:
        saved = torch.full((size,), 0.1 * (rank + 1), requires_grad=True).exp()
        before = saved._version
        call(saved)
        found.append(saved._version != before)
    return found


def counted(dist: Any) -> dict[str, int]:
    """What torch's CommDebugMode counts of calls of all kinds, and in a forward and a backward pass of fully_shard."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    layer = fully_shard(nn.Linear(8, 8), mesh=mesh)
    with CommDebugMode() as mode:
        for program in (reductions, copies, exchanges, scattered_sums, functional):
            program(dist)
        layer(torch.ones(2, 8)).sum().backward()
    return {str(operation): times for operation, times in mode.get_comm_counts().items()}


def checkpoint(dist: Any, folder: str) -> list[torch.Tensor]:
    """A distributed checkpoint of sharded parameters, saved and loaded into others."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.fsdp import fully_shard

    saved, loaded = model(0), model(1)
    for each in (saved, loaded):
        fully_shard(each)
    dcp.save({"model": saved.state_dict()}, checkpoint_id=folder)
    state = {"model": loaded.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    loaded.load_state_dict(state["model"])
    return [each.full_tensor().detach() for each in loaded.parameters()]


PROGRAMS: tuple[Program, ...] = (
    reductions, copies, exchanges, scattered_sums, messages, objects, groups, functional, ddp, sharded, tensor_parallel,
    pipelined, overwritten,
)  # fmt: skip
