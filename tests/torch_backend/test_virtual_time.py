"""torch's own programs in virtual time: what they take, with computing, against closed forms; and shapes alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, charge_computing, torch_distributed
from distlib.network import all_reduce_seconds, duration
from distlib.torch_backend import streams
from distlib.training.zero import UnitAction, play_step, step_plan
from tests.tools.torch_in_virtual_time import Llama, Shapes, llama_step

LINK = Link(latency=0.5, bandwidth=1e4)  # seconds and bytes/s that make sums easy to follow
FREE = Link(latency=0.0, bandwidth=math.inf)
WIDTH, ROWS, LAYERS = 16, 3, 5
FLOPS = 2 * ROWS * WIDTH * WIDTH  # of a layer's forward pass; it is also the rate: so a forward pass takes 1 s
BYTES = 4 * WIDTH * WIDTH  # of a layer's parameters


def simulated(size: int, function: Callable[..., Any], *args: Any, link: Link = LINK, **options: Any) -> SimulatedWorld:
    world = SimulatedWorld(size, Cluster.flat(size, link, **options), contexts="threads")
    world.results = world.run(function, *args, timeout=300)
    return world


def layers(kind: str = "cpu", count: int = LAYERS) -> nn.Sequential:
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False, device=kind) for _ in range(count)])


def rows(kind: str = "cpu", *, gradient: bool = True) -> torch.Tensor:
    return torch.ones(ROWS, WIDTH, device=kind, requires_grad=gradient)


# ── computing ────────────────────────────────────────────────────────────────────────────────────────────────────────


def seconds_of(compute: Callable[[], object], rate: float = 1.0, rank: int = 0, **options: Any) -> float:
    def run(comm: Communicator) -> float:
        with charge_computing(comm, flops_per_second=rate):
            compute()
        compute()  # costs nothing any more
        return comm.time()

    return float(simulated(rank + 1, run, **options).results[rank])


def test_each_product_takes_its_flops_forward_and_backward() -> None:
    """A layer multiplies once forward, and twice backward: once of these for its input, if that wants a gradient."""
    model = layers(count=1)
    assert seconds_of(lambda: model(rows()), FLOPS) == 1
    assert seconds_of(lambda: model(rows()).sum().backward(), FLOPS) == 3
    assert seconds_of(lambda: model(rows(gradient=False)).sum().backward(), FLOPS) == 2
    with torch.no_grad():
        assert seconds_of(lambda: model(rows()), FLOPS) == 1
    with torch.inference_mode():
        assert seconds_of(lambda: model(rows()), FLOPS) == 1
    assert seconds_of(lambda: model.to("meta")(rows("meta")), FLOPS) == 1


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_attention_and_convolution_cost_and_the_rest_does_not(kind: str) -> None:
    q, k, v = (torch.ones(2, 4, 6, 8, device=kind, requires_grad=True) for _ in range(3))
    product = 2 * 2 * 4 * 6 * 6 * 8
    assert seconds_of(lambda: functional.scaled_dot_product_attention(q, k, v)) == 2 * product
    backward = seconds_of(lambda: functional.scaled_dot_product_attention(q, k, v).sum().backward()) - 2 * product
    assert backward == {"cpu": 5, "meta": 4}[kind] * product  # one kernel makes the scores anew
    image, kernel = torch.ones(1, 3, 8, 8, device=kind), torch.ones(5, 3, 3, 3, device=kind)
    assert seconds_of(lambda: functional.conv2d(image, kernel)) == 2 * 5 * 3 * 9 * 36
    norm = nn.LayerNorm(8, device=kind)
    assert seconds_of(lambda: norm(q).relu().softmax(-1).sum().backward()) == 0


def test_stragglers_compute_longer() -> None:
    model = layers(count=1)
    assert seconds_of(lambda: model(rows()), FLOPS, 1, stragglers={1: 3.0}) == 3


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, "fast"])
def test_a_rate_is_a_number_above_0(rate: Any) -> None:
    with pytest.raises(RankError, match="above 0 as flops_per_second"):
        seconds_of(lambda: None, rate)


def test_real_ranks_have_a_real_clock(worlds) -> None:
    def run(comm: Communicator) -> None:
        with charge_computing(comm, flops_per_second=1.0):
            pass

    with pytest.raises(RankError, match="needs the communicator of a SimulatedWorld"):
        worlds(1).run(run, timeout=100)


# ── torch's programs, against closed forms ───────────────────────────────────────────────────────────────────────────


def ddp_step(comm: Communicator, rate: float) -> float:
    """The third step, when torch has made its buckets: one for each layer."""
    with torch_distributed(comm), charge_computing(comm, flops_per_second=rate):
        replica = nn.parallel.DistributedDataParallel(layers(), bucket_cap_mb=1e-5)
        for _ in range(3):
            comm.barrier()
            began = comm.time()
            replica(rows()).sum().backward()
        return comm.time() - began


@pytest.mark.parametrize("forward", [0.1, 1.0, 3.0, 10.0])
def test_ddp_hides_all_but_the_last_bucket_or_all_but_the_first_layer(forward: float) -> None:
    """Lesson 05: a bucket leaves as soon as its layer is done, and after those before it."""
    world = simulated(4, ddp_step, FLOPS / forward)
    bucket = all_reduce_seconds("ring", world.cluster, WIDTH * WIDTH, 4)
    backward = 2 * forward
    expected = LAYERS * forward + max(LAYERS * backward + bucket, backward + LAYERS * bucket)
    assert world.results == pytest.approx([expected] * 4)


@pytest.mark.parametrize("forward", [0.1, 10.0])
def test_ddp_by_shapes_has_buckets_if_it_looks_for_unused_parameters(forward: float) -> None:
    """Else it begins with one bucket for all, and makes others by reading numbers. The look is an all-reduce of flags.

    The first bucket holds at least 1 MiB, so the layers are larger here: 4 MiB each, as a bucket.
    """
    width = 1024

    def run(comm: Communicator) -> float:
        with torch_distributed(comm), charge_computing(comm, flops_per_second=2 * ROWS * width * width / forward):
            model = nn.Sequential(*[nn.Linear(width, width, bias=False, device="meta") for _ in range(LAYERS)])
            replica = nn.parallel.DistributedDataParallel(
                model, init_sync=False, bucket_cap_mb=4, find_unused_parameters=True
            )
            for _ in range(2):
                comm.barrier()
                began = comm.time()
                replica(torch.ones(ROWS, width, device="meta", requires_grad=True)).sum().backward()
            return comm.time() - began

    world = simulated(4, run, link=Link(0.5, 4e6))
    bucket, flags = (all_reduce_seconds("ring", world.cluster, length, 4) for length in (width * width, LAYERS))
    backward = 2 * forward
    expected = LAYERS * forward + max(LAYERS * backward + bucket, backward + LAYERS * bucket) + flags
    assert world.results == pytest.approx([expected] * 4)


def sharded_step(comm: Communicator, kind: str, rate: float) -> float:
    from torch.distributed.fsdp import fully_shard

    with torch_distributed(comm) as dist, charge_computing(comm, flops_per_second=rate):
        mesh = dist.device_mesh.init_device_mesh(kind, (comm.world_size,))
        model = layers(kind)
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(2):
            comm.barrier()
            began = comm.time()
            model(rows(kind)).square().mean().backward()
            optimizer.step()
        return comm.time() - began


@pytest.mark.parametrize(("forward", "exposed"), [(0.01, 3 * LAYERS), (100.0, 2)])
def test_fully_shard_by_shapes_overlaps_as_on_a_gpu(forward: float, exposed: int) -> None:
    """All communication is hidden but the first gather and the last scatter, or all computing is."""
    world = simulated(4, sharded_step, "meta", FLOPS / forward)
    gather = duration.ring_all_gather(world.cluster, WIDTH * WIDTH, 4)
    computing = 3 * LAYERS * forward if exposed == 2 else 0
    assert world.results == pytest.approx([exposed * gather + computing] * 4)


def test_the_plan_of_lesson_11_gathers_one_layer_more_in_the_open() -> None:
    """It gathers the last layer for its backward pass after the forward pass; on a GPU that gather has begun before."""

    def seconds(action: UnitAction) -> float:
        return {"F": 100.0, "B": 200.0}.get(action.kind, 0.0)

    def play(comm: Communicator) -> float:
        plan = step_plan(LAYERS, reshard_after_forward=True)
        return play_step(comm, plan, [WIDTH * WIDTH] * LAYERS, param_dtype=torch.float32, seconds=seconds)

    world = simulated(4, sharded_step, "meta", FLOPS / 100)
    gather = duration.ring_all_gather(world.cluster, WIDTH * WIDTH, 4)
    planned = SimulatedWorld(4, world.cluster).run(play)
    assert [each - gather for each in planned] == pytest.approx(world.results)
    assert planned == pytest.approx(world.results, rel=0.02)


@pytest.mark.parametrize("forward", [0.01, 100.0])
def test_fully_shard_on_a_cpu_hides_nothing(forward: float) -> None:
    """torch has no streams on a CPU: each gather and each scatter is over before the next line."""
    world = simulated(4, sharded_step, "cpu", FLOPS / forward)
    gather = duration.ring_all_gather(world.cluster, WIDTH * WIDTH, 4)
    assert world.results == pytest.approx([3 * LAYERS * (gather + forward)] * 4)


@pytest.mark.parametrize("kind", ["cpu", "meta"])
@pytest.mark.parametrize("gradient", [False, True])
def test_tensor_parallelism_divides_computing_and_adds_all_reduces(kind: str, gradient: bool) -> None:
    """Lesson 10: columns then rows, one all-reduce forward; backward one, if the input wants a gradient."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def run(comm: Communicator) -> float:
        with torch_distributed(comm) as dist, charge_computing(comm, flops_per_second=FLOPS):
            mesh = dist.device_mesh.init_device_mesh(kind, (comm.world_size,))
            mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH, False, kind), nn.ReLU(), nn.Linear(WIDTH, WIDTH, False, kind))
            parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
            comm.barrier()
            began = comm.time()
            mlp(rows(kind, gradient=gradient)).square().mean().backward()
            return comm.time() - began

    world = simulated(4, run)
    all_reduce = all_reduce_seconds("ring", world.cluster, ROWS * WIDTH, 4)
    products = 6 if gradient else 5
    assert world.results == pytest.approx([products / 4 + (2 if gradient else 1) * all_reduce] * 4)


@pytest.mark.parametrize(("kind", "microbatches"), [("cpu", 4), ("meta", 4), ("meta", 9)])
def test_1f1b_takes_the_time_of_lesson_09(kind: str, microbatches: int) -> None:
    """(p − 1 + m) · (F + B), where messages cost nothing. A first step also computes to find the shapes."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    if kind == "meta" and not hasattr(PipelineStage, "_recv_meta"):
        pytest.skip("this version of torch sends the shapes in a way that needs contents, see allow_pipelines_on")

    def run(comm: Communicator) -> float:
        rank, size = comm.rank, comm.world_size
        with torch_distributed(comm), charge_computing(comm, flops_per_second=FLOPS):
            stage = PipelineStage(layers(kind, count=1), rank, size, kind)
            loss = lambda output, target: (output - target).square().mean()  # noqa: E731
            schedule = Schedule1F1B(stage, n_microbatches=microbatches, loss_fn=loss)
            given = torch.ones(ROWS * microbatches, WIDTH, device=kind, requires_grad=True)
            for _ in range(2):
                comm.barrier()
                began = comm.time()
                target = {"target": given.detach()} if rank == size - 1 else {}
                schedule.step(*([given] if rank == 0 else []), **target)
            return comm.time() - began

    world = simulated(4, run, link=FREE)
    assert world.results[0] == pytest.approx((4 - 1 + microbatches) * 3)


def test_an_asynchronous_barrier_is_over_when_the_last_rank_has_come() -> None:
    def rank(comm: Communicator) -> tuple[bool, float]:
        with torch_distributed(comm) as dist:
            comm.sleep(1.0 + comm.rank)
            work = dist.barrier(async_op=True)
            comm.sleep(0.5)
            over = work.is_completed()
            work.wait()
            return over, comm.time()

    assert simulated(3, rank, link=FREE).results == [(False, 3.0), (False, 3.0), (True, 3.5)]


# ── shapes alone ─────────────────────────────────────────────────────────────────────────────────────────────────────


def calls(comm: Communicator, kind: str) -> float:
    """torch's collectives and messages, without their values."""
    from torch.distributed import _functional_collectives as functional_calls

    with torch_distributed(comm) as dist, torch.device(kind):
        rank, size = comm.rank, comm.world_size
        own, whole = torch.ones(6), torch.ones(6 * size)
        dist.all_reduce(own)
        dist.all_reduce(own, async_op=True).wait()
        dist.broadcast(own, 1)
        dist.reduce(own, 1)
        dist.all_gather_into_tensor(whole, own)
        dist.all_gather([torch.ones(6) for _ in range(size)], own)
        dist.reduce_scatter_tensor(own, whole)
        dist.all_to_all_single(whole, torch.ones(6 * size))
        if rank == 0:
            dist.send(own, 1)
        elif rank == 1:
            dist.recv(own, 0)
        world = dist.group.WORLD
        for result in (
            functional_calls.all_reduce(own, "sum", world),
            functional_calls.all_gather_tensor(own, 0, world),
            functional_calls.reduce_scatter_tensor(whole, "sum", 0, world),
            functional_calls.all_to_all_single(whole, None, None, world),
            functional_calls.broadcast(own, 2, world),
        ):
            result.add(1)  # waits for it
        return comm.time()


def test_calls_send_the_same_messages_with_contents_and_without() -> None:
    filled, shapes = (simulated(3, calls, kind) for kind in ("cpu", "meta"))
    assert shapes.results == filled.results
    assert shapes.trace.bytes_sent == filled.trace.bytes_sent
    assert shapes.trace.messages_sent == filled.trace.messages_sent
    texts = [[message.site.call for message in world.trace.messages] for world in (filled, shapes)]
    assert sorted(map(str, texts[0])) == sorted(map(str, texts[1]))


def test_outside_of_ranks_functional_collectives_are_torchs_own() -> None:
    simulated(2, calls, "meta")
    shape = torch.ones(3, device="meta")
    assert torch.ops._c10d_functional.all_reduce(shape, "sum", "no group").shape == (3,)


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_fully_shard_sends_what_lesson_11_says(kind: str) -> None:
    """Three parts a step: gathered forward, gathered backward, scattered: (N − 1)/N of the parameters each."""
    world = simulated(8, sharded_step, kind, 1.0)
    two_steps, parts = 2, 3 * LAYERS
    assert world.trace.messages_sent == [two_steps * parts * 7] * 8
    assert world.trace.bytes_sent == [two_steps * parts * BYTES // 8 * 7] * 8


def llama_seconds(cluster: Cluster, shapes: Shapes, tokens: int, rate: float) -> float:
    """A step where computing hides all that can be hidden: the first two gathers and the last two scatters cannot.

    Parameters are gathered in two bytes, gradients scattered in four. The root holds what is outside of the layers.
    """
    computing = 3 * (shapes.layers * shapes.layer_flops(tokens) + shapes.head_flops(tokens)) / rate
    open_lengths = (shapes.root_parameters, shapes.layer_parameters)
    return computing + sum(
        duration.ring_all_gather(cluster, length, 2) + duration.ring_reduce_scatter(cluster, length, 4)
        for length in open_lengths
    )


def check_llama(size: int, shapes: Shapes, tokens: int, rate: float, link: Link) -> None:
    world = simulated(size, llama_step, shapes, tokens, rate, link=link)
    assert world.results == pytest.approx([llama_seconds(world.cluster, shapes, tokens, rate)] * size, rel=1e-6)
    units = shapes.layers + 1
    assert world.trace.messages_sent == [(2 * units - 1 + units) * (size - 1)] * size  # the root stays gathered
    parameters = shapes.layers * shapes.layer_parameters + shapes.root_parameters
    gathered = 2 * parameters - shapes.root_parameters
    assert world.trace.bytes_sent == [(2 * gathered + 4 * parameters) // size * (size - 1)] * size


def test_a_small_llama_by_shapes() -> None:
    shapes = Shapes(layers=3, width=64, heads=4, kv_heads=2, hidden=96, vocabulary=128)
    check_llama(4, shapes, 32, 1e9, Link(1e-6, 1e10))


@pytest.mark.slow
def test_llama_3_8b_by_shapes() -> None:
    """8 billion parameters, of which none has contents."""
    assert sum(each.numel() for each in Llama(Shapes(layers=1)).to("meta").parameters()) > 0
    check_llama(8, Shapes(), 8192, 400e12, Link(3e-6, 450e9))


# ── streams ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_collective_in_a_stream_of_its_own_runs_while_the_rank_computes() -> None:
    def run(comm: Communicator) -> list[float]:
        found = []
        with torch_distributed(comm) as dist:
            shape = torch.ones(4, device="meta")
            comm.sleep(2)
            beside, event = streams.Stream(), streams.Event()
            event.record()  # 2 s
            comm.sleep(10)
            beside.wait_event(event)
            with streams.stream(beside):
                dist.all_reduce(shape)
                assert not beside.query() or comm.world_size == 1
            found.append(comm.time())
            streams.current_stream().wait_stream(beside)
            found.append(comm.time())
            with streams.stream(beside):
                dist.all_reduce(shape)
            later = beside.record_event()
            later.synchronize()
            streams.synchronize()
            assert later.query()
            found.append(comm.time())
        assert streams.current_stream() is None
        return found

    link = Link(latency=8.0, bandwidth=math.inf)  # an all-reduce of two ranks takes 16 s
    assert simulated(2, run, link=link).results == [[12.0, 18.0, 34.0]] * 2


def test_shapes_are_inferred_once_for_all_ranks(monkeypatch) -> None:
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    kind = type(DTensor._op_dispatcher.sharding_propagator)
    infer, asked = kind._propagate_tensor_meta_non_cached, []

    def counting(self: Any, schema: Any) -> Any:
        asked.append(str(schema.op))
        return infer(self, schema)

    def run(comm: Communicator) -> list[float]:
        with torch_distributed(comm) as dist:
            mesh = dist.device_mesh.init_device_mesh("cpu", (comm.world_size,))
            values = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
            return (values * 3 + 1).full_tensor().tolist()

    monkeypatch.setattr(kind, "_propagate_tensor_meta_non_cached", counting)
    assert SimulatedWorld(4, contexts="threads").run(run) == [[3.0 * each + 1 for each in range(8)]] * 4
    assert asked
    assert len(asked) == len(set(asked))
