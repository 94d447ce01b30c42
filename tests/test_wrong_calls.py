"""What every public function says when it is called wrongly: what was expected, and what came. Nothing of its insides.

A new public function gets its rows here: see `test_every_public_function_has_its_wrong_calls`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch
from torch import nn

import distlib
from distlib import Cluster, Link, SimulatedWorld, World, partition
from distlib.network import choice, duration, traffic
from distlib.training import buckets, data_parallel, ddp, gossip, large_batch, sampler, shards

FLAT = Cluster.flat(2)
MODEL = nn.Linear(2, 1)
SGD = torch.optim.SGD(MODEL.parameters(), lr=0.1)
T = torch.ones(4, 2)
PAIR = (T, T)
LOSS = nn.functional.mse_loss
RIGHT: dict[str, Any] = {  # by the name of an argument
    "model": MODEL, "module": MODEL, "optimizer": SGD, "loss_function": LOSS, "images": T, "labels": T, "batch": T,
    "output": T, "outputs": T, "gradient": T, "tensor": T, "tensors": [T], "microbatches": [PAIR], "batches": [PAIR],
    "global_batch_size": 4, "batch_size": 4, "base_batch_size": 2, "step": 0, "warmup_steps": 1,
    "base_learning_rate": 0.1, "dataset": [1, 2], "schedule": torch.full((2, 2), 0.5), "weight": torch.ones(1),
    "rounds": 1, "nbytes": [4], "bucket_bytes": 4, "path": "nowhere", "num_servers": 1, "op": distlib.ReduceOp.SUM,
    "shard": [], "cluster": FLAT, "length": 4, "itemsize": 4, "root": 0, "world_size": 2, "algorithm": "ring",
    "first": "ring", "second": "tree", "inputs": [T, T], "outputs of ranks": [T, T], "blocks": 1, "columns": 1,
    "ranks_per_node": 1, "flat": torch.ones(4), "parts": 2, "world": SimulatedWorld(2), "latency": 1e-6,
    "bandwidth": 1e9, "nodes": 1, "sizes": [4, 8], "index": 0,
}  # fmt: skip
NO_MODEL = ({"model": T}, {"model": nn.Linear}, {"model": None})
NO_COMM = ({"comm": T}, {"comm": None}, {"comm": FLAT})
NO_TENSOR = ({"tensor": [1.0]}, {"tensor": None}, {"tensor": torch.eye(2).to_sparse()}, {"tensor": numpy.ones(2)})

# function → the wrong arguments of each call; the others are right
WRONG: dict[Callable[..., Any], tuple[dict[str, Any], ...]] = {
    # worlds and networks
    World: ({"world_size": True}, {"world_size": "4"}, {"seed": "a"}, {"on_output": 3}, {"backend": ["gloo"]},
            {"network": 3}, {"output_limit": -1}, {"deaths": 3}),
    SimulatedWorld: ({"world_size": True}, {"world_size": 2.0}, {"cluster": Link(0, 1)}, {"contexts": []},
                     {"deaths": [1]}),
    SimulatedWorld(2).run: ({"fn": 3}, {"fn": torch.ones, "timeout": "1"}, {"fn": torch.ones, "timeout": -1}),
    Link: ({"latency": "1 ms"}, {"bandwidth": None}, {"latency": float("nan")}, {"bandwidth": True}),
    Link(0, 1).seconds: ({"nbytes": "4"}, {"nbytes": -1}),
    Cluster: ({"nodes": 1.0}, {"intra": 3}, {"eager_limit": "4"}, {"jitter": None}, {"stragglers": [1]},
              {"stragglers": {0: "2"}}),
    Cluster.flat: ({"world_size": 0}, {"link": 3}),
    FLAT.node_of: ({"rank": 2}, {"rank": "0"}),
    distlib.calibrate: ({"world": 2}, {"world": World}, {"sizes": 4}, {"sizes": [4, "8"]}, {"repeats": 0}),
    distlib.choose_all_reduce: ({"cluster": 4}, {"length": [4]}, {"itemsize": 0}),
    choice.all_reduce_seconds: ({"cluster": 4}, {"length": -1}, {"algorithm": ["ring"]}),
    choice.crossover_bytes: ({"cluster": None}, {"first": "star"}, {"itemsize": 0}),
    choice.square_columns: ({"world_size": 0}, {"world_size": 2.0}),
    partition.chunk_lengths: ({"length": "4"}, {"parts": 2.5}, {"parts": None}, {"length": -1}),
    partition.chunks_of: ({"flat": [1.0]}, {"flat": T}, {"parts": 0}),
    # collectives; more in tests/collectives/test_arguments.py
    distlib.all_gather: (*NO_COMM, *NO_TENSOR, {"algorithm": 3}),
    distlib.all_reduce: (*NO_COMM, *NO_TENSOR, {"op": "sum"}, {"op": None}, {"algorithm": None}),
    distlib.all_to_all: (*NO_COMM, {"outputs": [T]}, {"inputs": 3}, {"inputs": [1, 2]}),
    distlib.barrier: NO_COMM,
    distlib.broadcast: (*NO_COMM, *NO_TENSOR, {"root": 2}, {"root": None}),
    distlib.gather: (*NO_COMM, *NO_TENSOR, {"root": True}),
    distlib.reduce: (*NO_COMM, *NO_TENSOR, {"root": -1}, {"op": max}),
    distlib.reduce_scatter: (*NO_COMM, *NO_TENSOR, {"op": 1}),
    distlib.scatter: (*NO_COMM, *NO_TENSOR, {"root": "0"}),
    **dict.fromkeys(
        [distlib.ring_all_reduce, distlib.tree_all_reduce, distlib.double_tree_all_reduce, distlib.grid_all_reduce,
         distlib.halving_doubling_all_reduce, distlib.hierarchical_all_reduce, distlib.ring_all_gather,
         distlib.ring_reduce_scatter],
        (*NO_COMM, *NO_TENSOR),
    ),
    # training
    data_parallel.data_parallel_step: (*NO_COMM, *NO_MODEL, {"images": [1]}, {"labels": None}, {"loss_function": 3}),
    data_parallel.split_batch: (*NO_COMM, {"batch": [1, 2]}, {"batch": None}),
    data_parallel.replicate: (*NO_COMM, *NO_MODEL, {"algorithm": 3}),
    data_parallel.gather_outputs: (*NO_COMM, {"output": 3}, {"batch_size": "4"}),
    data_parallel.loss_of_outputs: ({"outputs": [T]}, {"loss_function": None}),
    data_parallel.split_gradient: (*NO_COMM, {"output": None}, {"gradient": 3}),
    data_parallel.reduce_gradients: (*NO_COMM, *NO_MODEL),
    large_batch.accumulate_gradients: (*NO_COMM, *NO_MODEL, {"loss_function": 3}, {"microbatches": T},
                                       {"microbatches": 3}, {"global_batch_size": "8"}, {"global_batch_size": 1}),
    large_batch.warmup_learning_rate: ({"step": "0"}, {"step": -1}, {"base_learning_rate": "0.1"}, {"batch_size": 0},
                                       {"warmup_steps": None}, {"base_batch_size": None}),
    large_batch.local_sgd_round: (*NO_COMM, *NO_MODEL, {"batches": []}, {"batches": T}, {"optimizer": torch.optim.SGD},
                                  {"optimizer": 0.1}, {"loss_function": None}),
    large_batch.all_reduce_together: (*NO_COMM, {"tensors": T.tolist()}, {"tensors": 3}, {"op": "sum"}),
    large_batch.check_gradients: (*NO_COMM, *NO_MODEL),
    ddp.DistributedDataParallel: (*NO_COMM, {"module": T}, {"version": "quick"}, {"bucket_bytes": "25 MB"},
                                  {"algorithm": 3}),
    ddp.PlainDDP: (*NO_COMM, {"module": MODEL.parameters()}, {"bucket_bytes": 0}, {"bucket_bytes": 0.5}),
    ddp.average_per_parameter: (*NO_COMM, {"module": None}),
    ddp.check_same_model: (*NO_COMM, {"module": None}),
    ddp.copy_from_rank_0: (*NO_COMM, {"module": 3}),
    ddp.save_checkpoint: (*NO_COMM, {"module": 3}, {"optimizer": None}),
    ddp.load_checkpoint: (*NO_COMM, {"module": 3}, {"optimizer": 0.1}),
    ddp.StepClock: (*NO_COMM, {"module": 3}, {"seconds": {"layer": 1.0}}),
    sampler.DistributedSampler: (*NO_COMM, {"dataset": 3}, {"dataset": iter([1])}, {"dataset": []}, {"seed": "a"}),
    buckets.assign_buckets: ({"nbytes": 4}, {"nbytes": [4.5]}, {"bucket_bytes": 0}, {"bucket_bytes": None}),
    shards.shard_parameters: ({"tensors": 3}, {"tensors": [1.0]}, {"num_servers": 0}, {"num_servers": 1.5},
                              {"largest_bytes": "4"}),
    shards.flatten: ({"tensors": [1.0]},),
    gossip.gossip_average: (*NO_COMM, *NO_TENSOR, {"schedule": 3}, {"schedule": [[0.5]]}, {"rounds": -1},
                            {"rounds": "1"}),
    gossip.push_sum: (*NO_COMM, *NO_TENSOR, {"weight": 1.0}, {"schedule": None}),
    gossip.decentralized_step: (*NO_COMM, *NO_MODEL, {"batch": (T,)}, {"batch": (1, 2)}, {"optimizer": None},
                                {"loss_function": 3}, {"step": "0"}),
    gossip.gradient_push_step: (*NO_COMM, *NO_MODEL, {"batch": None}, {"weight": 1.0}),
    gossip.consensus_error: ({"tensors": 3}, {"tensors": [1.0]}),
}  # fmt: skip
_COSTS = {
    function: ({"length": -1}, {"length": "4"}, {"itemsize": 0}, *([{"length": 2.5}] * (module is traffic)))
    for module in (traffic, duration)
    for name, function in vars(module).items()
    if name in distlib.collectives.__all__ and "length" in inspect.signature(function).parameters
}

# What has no arguments to be wrong, is made by the library itself, or says so in its own tests
NO_ROWS = {
    "CallSite", "Communicator", "DeadlockError", "Message", "MessageMismatch", "PeerLost", "RankError", "ReduceOp",
    "ResultError", "RunTimeout", "TooMuchOutput", "Trace", "UnreceivedMessage", "Work", "VERSIONS", "Span", "StepTimes",
    "Piece", "Shard", "unflatten", "decentralized", "torch_distributed", "charge_computing", "run_program",
    "ALL_REDUCES", "Comparison", "compare", "crossover_nodes", "duration", "gpus", "launch", "moves_up", "traffic",
    "two_trees",
}  # fmt: skip

INSIDES = (
    r"has no attribute|object is not|not supported between|unsupported operand|can't multiply|must be real|unhashable"
)


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@pytest.mark.parametrize("function", [*WRONG, *_COSTS], ids=_name)
def test_a_wrong_call_gets_a_sentence(function: Callable[..., Any]) -> None:
    for wrong in (WRONG | _COSTS)[function]:
        text = _told(function, wrong)
        kind, _, sentence = text.partition(": ")
        assert re.search(r"(TypeError|ValueError): ", text), (wrong, text)
        assert not re.search(INSIDES, sentence), (wrong, text)
        assert re.search(r"expect|needs|can't", sentence), (wrong, text)


def _told(function: Callable[..., Any], wrong: dict[str, Any]) -> str:
    """The error of a call, on two ranks where it takes a communicator."""
    wanted = inspect.signature(function).parameters
    given = {name: RIGHT[name] for name, each in wanted.items() if each.default is each.empty and name in RIGHT}
    if function is distlib.all_to_all:
        given["outputs"] = RIGHT["outputs of ranks"]
    given |= wrong
    positional = [given.pop(name) for name, each in wanted.items() if each.kind is each.POSITIONAL_ONLY]
    if "comm" not in wanted or "comm" in wrong:
        return _raised(lambda: function(*positional, **given))
    return _raised(lambda: SimulatedWorld(2).run(lambda comm: function(comm=comm, **given), timeout=100))


def _raised(call: Callable[[], object]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return f"{type(caught.value).__name__}: {caught.value}"


def _public(module: ModuleType) -> Iterator[str]:
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    yield from names


@pytest.mark.parametrize(
    "module",
    [distlib, data_parallel, large_batch, ddp, sampler, buckets, shards, gossip],
    ids=lambda m: m.__name__,
)
def test_every_public_function_has_its_wrong_calls(module: ModuleType) -> None:
    here = {function.__qualname__.rpartition(".")[2] for function in WRONG} | {"Batch", "LossFunction", "Schedule"}
    assert {name for name in _public(module) if name not in here} <= NO_ROWS
