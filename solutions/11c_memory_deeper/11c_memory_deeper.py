# %% [markdown]
# # Exercise 11c: stages 2 and 3, and checkpoints
#
# You write by hand what exercise 11 leaves to torch: first the gradients are cut into shards, one for each rank, then
# the parameters themselves. Then you move a training run from one number of ranks to another. It is a side road: no
# later exercise needs it.
#
# - **Time:** about 105 minutes.
# - **Before:** read the lesson [Memory, deeper](../../course/11c_memory_deeper.ipynb), and do exercise 11.
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function or class | stage | visible tests | hidden tests |
# |---|---|---|---:|---:|
# | 1 | `shard_gradients` | 2: gradients | 3 | 4 |
# | 2 | `FullyShardedModule` | 3: parameters | 5 | 6 |
# | 3 | `whole_state` | 3, by torch | 2 | 3 |
# | 4 | `load_whole_state` | 3, by torch | 2 | 3 |
#
# That makes 28 points. Each part is graded by itself. Its cell may hold functions and classes besides the one that is
# asked for; what two parts have in common, write in both.

# %% [markdown]
# ## How to work
#
# Shards, padding and what is **alive** are those of exercise 11. A shard of $n$ numbers has $\lceil n / N \rceil$ of
# them on every rank, and begins and ends anywhere, also in the middle of a tensor.
#
# **What is sent.** The set-up cell has three functions. Each works in place, on a tensor that has a chunk for each
# rank. Of a tensor of $S$ bytes each rank sends:
#
# | | afterwards | sends |
# |---|---|---|
# | `reduce_scatter(comm, flat)` | chunk $r$ of rank $r$'s `flat` is the sum over all ranks | $(N - 1) / N \cdot S$ |
# | `all_gather(comm, flat)` | chunk $r$ of every rank's `flat` is rank $r$'s | $(N - 1) / N \cdot S$ |
# | `all_reduce(comm, flat)` | every rank's `flat` is the sum over all ranks | $2 (N - 1) / N \cdot S$ |
#
# After `reduce_scatter` the other chunks are of no use. Where $N$ divides the length, chunks are shards. With
# `op=ReduceOp.AVG` as the third argument, a sum becomes the average. None has `async_op`. All ranks call the same
# functions in the same order. You may also send and receive yourself, within the same limits; the other collectives of
# `distlib` are not allowed.
#
# **What is counted.** The bytes that each rank sends, and the bytes that are alive. All tensors of a call have the same
# dtype.

# %% readonly="setup"
from collections.abc import Sequence
from typing import Any

import torch

from distlib import Communicator, ReduceOp, World, all_gather, all_reduce, reduce_scatter

two = World(2)  # two ranks to try things on


class FlatParameters:
    """The parameters of a module as pieces of one flat buffer, whose memory can be freed and
    had again.

    Args:
        unit: the module. From now on its parameters are views of `flat`.
        world_size: the number of ranks.

    Attributes:
        parameters: the module's, in their order.
        flat: all of them, and the padding. Its length never changes, also while it has no
            memory.
    """

    def __init__(self, unit: torch.nn.Module, world_size: int) -> None:
        self.parameters = list(unit.parameters())
        values = torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])
        self.flat = torch.cat([values, values.new_zeros(-len(values) % world_size)])
        self._shapes = [parameter.shape for parameter in self.parameters]
        self._attach()

    def free(self) -> None:
        """Give the memory of the parameters back. Until the next `refill` nobody can compute
        with them."""
        for parameter in self.parameters:
            parameter.data = parameter.data.new_empty(0)
        self.flat.untyped_storage().resize_(0)

    def refill(self) -> None:
        """Have memory for the parameters again. There is nothing but NaN in it: now write the
        values into `flat`."""
        self.flat.untyped_storage().resize_(self.flat.numel() * self.flat.itemsize)
        self.flat.fill_(torch.nan)
        self._attach()

    def _attach(self) -> None:
        pieces = self.flat[: sum(map(torch.Size.numel, self._shapes))].split(
            [shape.numel() for shape in self._shapes]
        )
        for parameter, piece, shape in zip(self.parameters, pieces, self._shapes, strict=True):
            parameter.data = piece.view(shape)


# %% [markdown]
# ## 1. Stage 2, cut the gradients: `shard_gradients`
#
# After the backward pass each rank has a whole gradient, of its own batch. It needs one shard of the average. The
# all-reduce of data parallel training would give it the whole average: twice the bytes, and most of them for nothing. A
# reduce-scatter gives it what it needs. Then the whole gradients can go.
#
# **Clipping** comes with it. Training goes wild when a gradient is very long. So if the norm of the averaged gradient,
# $\sqrt{\sum g^2}$ over *all* its numbers, is above `max_norm`, all numbers are multiplied by
#
# $$\frac{\text{max\_norm}}{\text{norm} + 10^{-6}}$$
#
# as `torch.nn.utils.clip_grad_norm_` does it. No rank has all numbers now. But each has the sum of the squares in its
# shard, and these sums can be added up. If each rank took the norm of its own shard, each would have another factor.
#
# With 2 ranks, two parameters of 2 and 1 numbers, and `max_norm=1`:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | its gradients | `[2, 4]`, `[6]` | `[4, -4]`, `[2]` |
# | flat, with padding | `2, 4, 6, 0` | `4, -4, 2, 0` |
# | its shard of the average | `3, 0` | `4, 0` |
# | sum of squares | 9 | 16 |
# | norm | $\sqrt{9 + 16} = 5$ | 5 |
# | what it returns | `[0.6, 0]` and 5 | `[0.8, 0]` and 5 |
#
# The padding is zeros: memory that nobody has written may hold any numbers, and they would be a part of the norm.
#
# **Alive afterwards:** the parameters, and the shard that is returned. Set `parameter.grad = None` for every parameter,
# and do not return a view of the whole buffer.


# %% solution="shard_gradients"
def shard_gradients(
    comm: Communicator, parameters: Sequence[torch.nn.Parameter], max_norm: float
) -> tuple[torch.Tensor, float]:
    """Average the gradients over the ranks, keep this rank's shard, free the rest, and clip.

    Args:
        comm: the communicator of this rank.
        parameters: the same on all ranks, each with the gradient of this rank's batch.
            Afterwards every parameter.grad is None. The parameters themselves do not change.
        max_norm: above 0. What the norm of the averaged gradient is at most, after clipping;
            math.inf: no clipping.

    Returns:
        shard: this rank's shard of the averaged gradient, with its padding, multiplied by
            max_norm / (norm + 1e-6) if the norm is above max_norm: [ceil(n / N)] for n numbers
            in all parameters together.
        norm: of the whole averaged gradient before clipping, a number; the same on all ranks.

    Cost for N ranks, and S bytes of gradients with their padding: one reduce-scatter,
        (N - 1) / N * S bytes from each rank, and at most one number from each rank to each
        other rank, for the norm.
    """
    ### BEGIN SOLUTION
    gradients = [parameter.grad.reshape(-1) for parameter in parameters]
    length = sum(map(len, gradients))
    flat = torch.cat([*gradients, gradients[0].new_zeros(-length % comm.world_size)])
    for parameter in parameters:
        parameter.grad = None
    reduce_scatter(comm, flat, ReduceOp.AVG)
    shard = flat.chunk(comm.world_size)[comm.rank].clone()
    squares = shard.square().sum()
    all_reduce(comm, squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        shard *= max_norm / (norm + 1e-6)
    return shard, norm
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, then with a larger `max_norm`. A cell like this one gives no marks. Change it
# as you like.


# %%
def try_gradients(comm: Communicator) -> tuple[list[float], float]:
    parameters = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1))]
    gradients = [([2.0, 4.0], [6.0]), ([4.0, -4.0], [2.0])][comm.rank]
    for parameter, values in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(values)
    shard, norm = shard_gradients(comm, parameters, max_norm=1.0)
    return [round(value, 4) for value in shard.tolist()], round(norm, 4)


for rank, (shard, norm) in enumerate(two.run(try_gradients)):
    print(f"rank {rank}: shard {shard}, norm {norm}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 3 points.** It compares with one process that has all gradients, counts the bytes that are sent, and
# those that are alive afterwards. In one case the norm is 0.00001: there the $10^{-6}$ counts. Memory that nobody has
# written holds NaN in it.

# %% test="shard_gradients_visible" points=3
from distlib.exercises import Clipping, check_shard_gradients

report = check_shard_gradients(
    shard_gradients,
    runs=[
        Clipping(2, shapes=[(2, 3), (4,)]),
        Clipping(4, shapes=[(4, 5), (4,)], relative_norm=0.5),
        Clipping(3, shapes=[(2, 3), (4,)]),
        Clipping(3, shapes=[(2, 3), (4,)], relative_norm=0.5),
        Clipping(4, shapes=[(3, 4), (2,)], relative_norm=1.5, norm=4.0),
        Clipping(2, shapes=[(5,), (2, 2)], relative_norm=0.5, norm=1e-5),
        Clipping(1, shapes=[(2, 3), (4,)], relative_norm=0.5),
        Clipping(4, shapes=[(2,), (1,)], relative_norm=0.5),
    ],
)
# 5 numbers, and the norm
assert all(5 * 8 <= sent <= (5 + 1) * 8 for sent in report[0].trace.bytes_sent)
assert all(3 * 6 * 8 <= sent <= 3 * (6 + 1) * 8 for sent in report[1].trace.bytes_sent)
print(report)

# %% [markdown]
# **Hidden test: 4 points.** More ranks, other shapes, another dtype, several calls.

# %% test="shard_gradients_hidden" points=4
# The hidden tests of shard_gradients stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, more shapes, float32, small and large norms, no clipping, several calls in a row.
import math

import torch

from distlib.exercises import Clipping, check_shard_gradients

report = check_shard_gradients(
    shard_gradients,
    runs=[
        Clipping(2, shapes=[(3, 3), (2, 2, 2), ()], relative_norm=0.25),
        Clipping(5, shapes=[(4,), (7, 3), (2, 3)], relative_norm=0.9, norm=0.02),
        Clipping(6, shapes=[(5, 5), (5,), (5, 1), (2,)], relative_norm=math.inf, norm=3e4),
        Clipping(3, shapes=[(4, 5), (3,)], relative_norm=0.5, dtype=torch.float32),
        Clipping(4, shapes=[(6, 6), (3,)], relative_norm=0.5, calls=3),
        Clipping(3, shapes=[(4, 2), (3,)], relative_norm=1.5, norm=5.0, calls=2),
        Clipping(4, shapes=[(3, 2), (5,)], relative_norm=0.7, norm=2e-5),
        Clipping(1, shapes=[(5,), (3, 2)], relative_norm=2.0),
        Clipping(5, shapes=[(1,), (3,)], relative_norm=0.5, norm=7e5),
        Clipping(3, shapes=[(2, 5)], relative_norm=0.5),
        Clipping(3, shapes=[(4, 3)], relative_norm=0.8, norm=3e-7),
    ],
    seed=113,
)
assert len(report) == 11
assert all(9 * 8 <= sent <= (9 + 1) * 8 for sent in report[0].trace.bytes_sent)
assert max(report[1].trace.bytes_sent) <= 4 * (7 + 1) * 8
assert len({float(result["calls"][0]["norm"]) > 0 for result in report[7].results}) == 1
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Stage 3, cut the parameters: `FullyShardedModule`
#
# Now a rank keeps its shard of the parameters only. A layer can't compute with a shard. So its parameters are gathered
# just before they are needed, and freed just after. What is gathered and freed together is a **unit**: a part of the
# model, such as a layer. For two units:
#
# | | unit 0 | unit 1 |
# |---|---|---|
# | forward | gather, compute, free | |
# | | | gather, compute, free |
# | backward | | gather, compute, reduce-scatter its gradients, free both |
# | | gather, compute, reduce-scatter its gradients, free both | |
# | optimizer | updates the shards | updates the shards |
#
# Never is more than one unit there whole.
#
# **Memory.** `FlatParameters(unit, comm.world_size)`, from the set-up cell, makes the parameters of a unit views of one
# flat buffer. `free()` gives the memory of the buffer back. `refill()` gets it again, with NaN in it: then write your
# shard into its place and call `all_gather`. Whatever torch has noted of the parameters for the backward pass is a view
# of the same buffer, and good again as soon as the buffer is.
#
# **Hooks.** torch calls functions of yours at four moments. What these return, unless it is None, takes the place of
# inputs, outputs or gradients: so return nothing.
#
# | | calls, when |
# |---|---|
# | `unit.register_forward_pre_hook(f)` | `f(unit, inputs)`, before the unit computes |
# | `unit.register_forward_hook(f)` | `f(unit, inputs, output)`, after it |
# | `output.register_hook(f)` | `f(gradient)`, when the backward pass has come to this output |
# | `parameter.register_post_accumulate_grad_hook(f)` | `f(parameter)`, when `parameter.grad` is there |
#
# The third is for an output of a unit, and only if `output.requires_grad`: without gradients, inside `torch.no_grad()`,
# there is no backward pass to prepare for.
#
# There is no hook for the moment at which the backward pass of a unit is over. But it is over when *all* its parameters
# have their gradients, and the last of their hooks can notice that. The order in which they come is torch's affair.
#
# **Gradients.** When a unit's gradients are all there, put them into a flat buffer, with padding, and average it by a
# reduce-scatter. Your shard of it becomes the `grad` of your shard of the parameters. If there is one already, from
# another backward pass, it is added, as torch does it. The whole gradients are freed.


# %% solution="FullyShardedModule"
class FullyShardedModule(torch.nn.Module):
    """A model of whose parameters and gradients each rank keeps its shard only.

        model = FullyShardedModule(comm, module, units=list(module))
        optimizer = torch.optim.Adam(model.shards)
        loss_function(model(inputs), targets).backward()
        optimizer.step()

    Args:
        comm: the communicator of this rank.
        module: the same model on all ranks, with the same values.
        units: parts of the module, in the order in which they compute. Each parameter is in one
            of them, and all are trained. A unit may have more of them than another. Each unit
            computes once in every forward pass. It takes one tensor or several, and what it
            returns is one tensor.

    Attributes:
        shards: a list with a torch.nn.Parameter for each unit, in the order of `units`: this
            rank's shard, [ceil(n / N)] for n numbers in the unit. Whoever changes them, such as
            an optimizer, has changed the model. After a backward pass shard.grad is this rank's
            shard of the gradient, averaged over the ranks; further backward passes add to it.

    Alive between steps: the shards and their gradients. During a step also one unit, and its
        gradients, whole, and the activations.

    Cost for N ranks, and S bytes of all units with their padding: forward sends an all-gather
        of each unit, backward an all-gather and a reduce-scatter of each, (N - 1) / N * S bytes
        each time, from each rank. The constructor sends nothing.
    """

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """What the module makes of the inputs, which are this rank's batch."""
        return self.module(*inputs)

    def __init__(
        self, comm: Communicator, module: torch.nn.Module, units: Sequence[torch.nn.Module]
    ) -> None:
        super().__init__()
        self.comm, self.module = comm, module
        ### BEGIN SOLUTION
        self.shards = [self.shard_unit(unit) for unit in units]

    def shard_unit(self, unit: torch.nn.Module) -> torch.nn.Parameter:
        """Free a unit, have it gathered and freed by hooks, and return this rank's shard of
        it."""
        whole = FlatParameters(unit, self.comm.world_size)
        shard = torch.nn.Parameter(
            whole.flat.chunk(self.comm.world_size)[self.comm.rank].clone()
        )
        whole.free()
        missing = set(whole.parameters)  # whose gradients have not come yet

        def on_gradient(parameter: torch.nn.Parameter) -> None:
            missing.discard(parameter)
            if not missing:
                missing.update(whole.parameters)
                self.average(whole, shard)
                whole.free()

        def after_forward(unit: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
            whole.free()
            if output.requires_grad:
                output.register_hook(lambda gradient: self.gather(whole, shard))

        unit.register_forward_pre_hook(lambda unit, inputs: self.gather(whole, shard))
        unit.register_forward_hook(after_forward)
        for parameter in whole.parameters:
            parameter.register_post_accumulate_grad_hook(on_gradient)
        return shard

    def gather(self, whole: FlatParameters, shard: torch.nn.Parameter) -> None:
        """Have the parameters of a unit there, from all ranks."""
        whole.refill()
        whole.flat.chunk(self.comm.world_size)[self.comm.rank].copy_(shard.detach())
        all_gather(self.comm, whole.flat)

    def average(self, whole: FlatParameters, shard: torch.nn.Parameter) -> None:
        """Average the gradients of a unit, keep this rank's shard, and free the rest."""
        gradients = [parameter.grad.reshape(-1) for parameter in whole.parameters]
        flat = torch.cat(
            [*gradients, shard.new_zeros(len(whole.flat) - sum(map(len, gradients)))]
        )
        for parameter in whole.parameters:
            parameter.grad = None
        reduce_scatter(self.comm, flat, ReduceOp.AVG)
        own = flat.chunk(self.comm.world_size)[self.comm.rank].clone()
        shard.grad = own if shard.grad is None else shard.grad + own

        ### END SOLUTION


# %% [markdown]
# **Try it.** Each rank has one number as its batch, 1 on rank 0 and 3 on rank 1, and two units that multiply by a
# weight: $5$ and $7$. The loss is the output. On one process the average of the gradients is $7 \cdot 2 = 14$ for the
# first weight and $5 \cdot 2 = 10$ for the second. On 2 ranks rank 0 has both, and rank 1 the padding.


# %%
def try_module(comm: Communicator) -> tuple[float, list[list[float]]]:
    layers = torch.nn.Sequential(
        torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1, bias=False)
    )
    for layer, value in zip(layers, (5.0, 7.0), strict=True):
        torch.nn.init.constant_(layer.weight, value)
    model = FullyShardedModule(comm, layers, units=list(layers))
    output = model(torch.tensor([[1.0, 3.0][comm.rank]]))
    output.sum().backward()
    return output.item(), [shard.grad.tolist() for shard in model.shards]


for rank, (output, gradients) in enumerate(two.run(try_module, timeout=10)):
    print(f"rank {rank}: output {output}, gradients of its shards {gradients}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 5 points.** It compares shards, outputs and gradients with those of one process, for two steps. In the
# midst of every unit, in both passes, it looks which units are there and how many bytes are alive, and it counts the
# bytes that are sent. A unit is `tanh` of one or two linear layers. The module doubles what its last unit returns.
# What computes first, a layer or a unit, may be registered last.

# %% test="FullyShardedModule_visible" points=5
from distlib.exercises import Sharding, check_fully_sharded_module

report = check_fully_sharded_module(
    FullyShardedModule,
    runs=[
        Sharding(2, widths=[11, 14, 12]),
        Sharding(4, widths=[9, 14, 11]),
        Sharding(3, widths=[6, 10, 10], layers=2),
        Sharding(2, widths=[10, 12, 11], passes=2),
        Sharding(3, widths=[11, 11, 11], evaluates=True),
        Sharding(1, widths=[7, 8, 9]),
    ],
)
# the bytes of a shard of each unit; each step sends them at most three times
step = (84 + 90) * 8
assert all(2 * 2 * step <= sent <= 2 * 3 * step for sent in report[0].trace.bytes_sent)
# to each of three other ranks
assert max(report[1].trace.bytes_sent) <= 2 * 3 * 3 * (35 + 42) * 8
print(report)

# %% [markdown]
# **Hidden test: 6 points.** More ranks, more units, several backward passes, evaluation without gradients.

# %% test="FullyShardedModule_hidden" points=6
# The hidden tests of FullyShardedModule stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 5 ranks, more units, small ones, of other layers each, without biases, of several tensors.
import torch

from distlib.exercises import Sharding, check_fully_sharded_module

report = check_fully_sharded_module(
    FullyShardedModule,
    runs=[
        Sharding(2, widths=[9, 13, 12, 10]),
        Sharding(4, widths=[8, 9, 11], layers=3, evaluates=True),
        Sharding(3, widths=[8, 12, 12], passes=3),
        Sharding(3, widths=[9, 10, 12], layers=2, biases=False),
        Sharding(5, widths=[9, 1, 1, 14, 3], steps=1),
        Sharding(3, widths=[10, 13, 8], dtype=torch.float32),
        Sharding(2, widths=[8, 11, 9], inputs=3, samples=[2, 3], evaluates=True),
        Sharding(3, widths=[9, 12, 8], tensors=3, evaluates=True),
        Sharding(2, widths=[10, 12, 9], next_to=True, steps=3),
        Sharding(1, widths=[6, 8, 7], layers=3, passes=2, evaluates=True),
        Sharding(2, widths=[7, 9, 8, 6], layers=[2, 1, 3], evaluates=True),
    ],
    seed=114,
)
assert len(report) == 11
assert [2 * 2 * 214 * 8 <= sent <= 2 * 3 * 214 * 8 for sent in report[0].trace.bytes_sent] == [
    True
] * 2
assert max(report[2].trace.bytes_sent) <= 2 * 3 * 3 * 2 * (36 + 52) * 8
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Save a training whole: `whole_state`
#
# Three ranks have trained, and two shall go on. Each has rows that no rank of two has. So rank 0 saves whole tensors.
# `torch.distributed.checkpoint.state_dict` has what you need:
#
# | call | returns |
# |---|---|
# | `get_model_state_dict(model, options=options)` | the parameters, by their names |
# | `get_optimizer_state_dict(model, optimizer, options=options)` | moments and steps, by these names; groups |
#
# With `options = StateDictOptions(full_state_dict=True, cpu_offload=True)` tensors are whole, and stay on rank 0 alone.
# The training goes on while the state is written to a file. So both must share no memory; on a CPU `cpu_offload` copies
# nothing.

# %% readonly="setup_state"
import copy

import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distlib import torch_distributed


# %% solution="whole_state"
def whole_state(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """All that is needed to go on with a training, on any number of ranks. All ranks call it;
    torch's default process group is open, and spans all of them.

    Args:
        model: its blocks, and then itself, were given to fully_shard, over all ranks. Some
            parameters may be frozen. Not changed.
        optimizer: a torch.optim.AdamW that has taken some steps, perhaps with amsgrad=True,
            and so with a third moment. It has any number of groups of parameters, in any order.
            Not changed.

    Returns:
        On rank 0 {"model": what get_model_state_dict returns, "optimizer": what
        get_optimizer_state_dict returns}, with whole tensors, which later steps don't change.
        On the other ranks a dict without any tensor.

    Cost: each tensor of the state is all-gathered once.
    """
    ### BEGIN SOLUTION
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    state = {
        "model": get_model_state_dict(model, options=options),
        "optimizer": get_optimizer_state_dict(model, optimizer, options=options),
    }
    return copy.deepcopy(state)
    ### END SOLUTION


# %% [markdown]
# **Try it:** three ranks train a layer with five rows. What does each return?


# %%
def made(seed: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(seed)
    layer = torch.nn.Linear(2, 5)
    fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return layer, torch.optim.AdamW(layer.parameters(), lr=0.1)


def try_saving(comm: Communicator) -> dict[str, Any]:
    with torch_distributed(comm):
        layer, optimizer = made(seed=1)
        for _ in range(3):
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        return whole_state(layer, optimizer)


with World(3) as three:
    states = three.run(try_saving, timeout=60)
for rank, state in enumerate(states):
    tensors = {name: list(tensor.shape) for name, tensor in state.get("model", {}).items()}
    print(f"rank {rank}: {tensors}")
if states[0].get("optimizer"):
    print(states[0]["optimizer"]["state"]["bias"])

# %% [markdown]
# **Visible test: 2 points.** It compares the state with one process, before and after more steps.

# %% test="whole_state_visible" points=2
from distlib.exercises import Break, check_whole_state

report = check_whole_state(
    whole_state,
    runs=[
        Break(2, widths=(5, 6, 10, 3), blocks=2),
        Break(3, widths=(4, 24, 150, 5), blocks=1, before=3),
        Break(4, widths=(7, 5, 8, 3), blocks=1, bias=False),
        Break(2, widths=(5, 6, 9, 4), blocks=1, after=2, frozen=["first"]),
        Break(1, widths=(5, 6, 7, 3), blocks=1),
    ],
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Other models, other numbers of ranks and of steps.

# %% test="whole_state_hidden" points=3
# The hidden tests of whole_state stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 5 ranks, ranks without rows, frozen layers, no biases, float32, amsgrad, three groups.
import torch

from distlib.exercises import Break, check_whole_state

report = check_whole_state(
    whole_state,
    runs=[
        Break(3, widths=(6, 22, 160, 4), blocks=1, before=1),
        Break(5, widths=(4, 7, 11, 2), blocks=1, groups=3),
        Break(2, widths=(3, 8, 9, 5), blocks=3, frozen=["last", "blocks.1.norm"]),
        Break(2, widths=(4, 6, 10, 3), blocks=1, before=4, after=2, amsgrad=True),
        Break(3, widths=(5, 7, 8, 2), blocks=1, before=4, dtype=torch.float32),
        Break(1, widths=(6, 5, 9, 2), blocks=2, before=3, after=3, bias=False),
    ],
    drawn=2,
    seed=116,
)
assert len(report) == 8
### END HIDDEN TESTS

# %% [markdown]
# ## 4. And go on with other ranks: `load_whole_state`
#
# In the new run only rank 0 has read the file. `set_model_state_dict` and `set_optimizer_state_dict` load what the two
# calls of part 3 return. Their options are `full_state_dict=True` and `broadcast_from_rank0=True`: rank 0 sends one
# tensor after the other, and each rank keeps its rows of it. All ranks call both, also those that have nothing.
#
# (`set_state_dict` is for both at once. But a rank with an empty dict leaves out the model there, and all others wait.)


# %% solution="load_whole_state"
def load_whole_state(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    """Load what another training has left, on any number of ranks. All ranks call it; torch's
    default process group is open, and spans all of them.

    Args:
        model: as of whole_state, but new. Afterwards its parameters are those of the state,
            still as DTensors.
        optimizer: a new torch.optim.AdamW with the model's parameters, in the same groups, but
            with other options; only amsgrad is that of the state. Afterwards its moments, steps
            and options are those of the state.
        state: on rank 0 what whole_state returns there; on the other ranks {}.

    Cost: rank 0's tensors are broadcast once, one by one. What travels as objects is names,
        shapes and single numbers.
    """
    ### BEGIN SOLUTION
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, state.get("model", {}), options=options)
    set_optimizer_state_dict(model, optimizer, state.get("optimizer", {}), options=options)
    ### END SOLUTION


# %% [markdown]
# **Try it:** two ranks go on with the state of the three. Does each have its rows, and three steps?


# %%
def try_loading(comm: Communicator, state: dict[str, Any]) -> tuple[list[float], float]:
    with torch_distributed(comm):
        layer, optimizer = made(seed=2)
        load_whole_state(layer, optimizer, state if comm.rank == 0 else {})
        return layer.bias.to_local().tolist(), float(optimizer.state[layer.bias]["step"])


print("saved: ", states[0].get("model", {}).get("bias"))
for rank, (bias, steps) in enumerate(two.run(try_loading, states[0], timeout=60)):
    print(f"rank {rank}:", [round(value, 4) for value in bias], f"after {steps:g} steps")

# %% [markdown]
# **Visible test: 2 points.** It compares each rank's rows with a training without a break, at once and after more
# steps.

# %% test="load_whole_state_visible" points=2
from distlib.exercises import Break, check_load_whole_state

report = check_load_whole_state(
    load_whole_state,
    runs=[
        Break(2, widths=(5, 6, 10, 3), blocks=2),
        Break(3, widths=(4, 24, 150, 5), blocks=1, before=3),
        Break(4, widths=(7, 5, 8, 3), blocks=1, bias=False),
        Break(2, widths=(5, 6, 9, 4), blocks=1, after=2, frozen=["first"]),
        Break(1, widths=(5, 6, 7, 3), blocks=1),
    ],
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Other models, other numbers of ranks and of steps.

# %% test="load_whole_state_hidden" points=3
# The hidden tests of load_whole_state stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 5 ranks, ranks without rows, frozen layers, no biases, float32, amsgrad, three groups.
import torch

from distlib.exercises import Break, check_load_whole_state

report = check_load_whole_state(
    load_whole_state,
    runs=[
        Break(3, widths=(6, 22, 160, 4), blocks=1, before=1),
        Break(5, widths=(4, 7, 11, 2), blocks=1, groups=3),
        Break(2, widths=(3, 8, 9, 5), blocks=3, frozen=["last", "blocks.1.norm"]),
        Break(2, widths=(4, 6, 10, 3), blocks=1, before=4, after=2, amsgrad=True),
        Break(3, widths=(5, 7, 8, 2), blocks=1, before=4, dtype=torch.float32),
        Break(1, widths=(6, 5, 9, 2), blocks=2, before=3, after=3, bias=False),
    ],
    drawn=2,
    seed=117,
)
assert len(report) == 8
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# Two ranks train an MLP of three units at stage 3. Each rank has 16 of the 32 samples. How many numbers does a rank
# keep, of how many? How many bytes does it send in each step, and how many would the all-reduce of data parallel
# training send? Compare with `memory_by_stage` of exercise 11.

# %%
STEPS, WIDTHS = 40, (16, 64, 64, 1)


def train(comm: Communicator) -> tuple[list[float], int, int]:
    torch.manual_seed(0)  # the same model and data on all ranks
    pairs = zip(WIDTHS, WIDTHS[1:], strict=False)
    units = [torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(*pair)) for pair in pairs]
    inputs = torch.randn(32, WIDTHS[0])
    targets = inputs[:, :4].sum(1, keepdim=True).sin()
    numbers = sum(parameter.numel() for unit in units for parameter in unit.parameters())
    model = FullyShardedModule(comm, torch.nn.Sequential(*units), units)
    optimizer = torch.optim.Adam(model.shards, lr=0.01)
    own, losses = slice(comm.rank, None, comm.world_size), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[own]), targets[own])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, sum(shard.numel() for shard in model.shards), numbers


results = two.run(train, timeout=60)
losses = [sum(pair) / 2 for pair in zip(*(losses for losses, _, _ in results), strict=True)]
print("losses:", *(f"{loss:.4f}" for loss in losses[::13]))
print(f"a rank keeps {results[0][1]:,} numbers of {results[0][2]:,}")
print(
    f"it sends {two.trace.bytes_sent[0] // STEPS:,} bytes in each step; "
    f"an all-reduce sends {4 * results[0][2]:,}"
)

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 11c_memory_deeper` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("11c_memory_deeper")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("11c_memory_deeper")
