# %% [markdown]
# # Exercise 12c: a step on a mesh
#
# You split the ranks into the groups of a mesh, train a model on it that is cut in three ways at once, and clip its
# gradients. At last you train with torch's own mesh. It is a side road: no later exercise needs it.
#
# - **Time:** about 125 minutes.
# - **Before:** read the lesson [Layouts](../../course/12c_layouts.ipynb), or at least
#   [Hybrid](../../course/12_hybrid.ipynb), and do part 3 of exercise 09.
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `build_mesh` | 2 | 2 |
# | 2 | `hybrid_step` | 4 | 5 |
# | 3 | `clip_gradients` | 2 | 3 |
# | 4 | `train_on_mesh` | 3 | 4 |
#
# That makes 25 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# A **mesh** gives each rank a coordinate along each of its **axes**. The axes of this exercise are those of lesson 12:
# `dp` (data parallel), `pp` (pipeline parallel) and `tp` (tensor parallel). A dict says how many ranks there are along
# each, in the order of the mesh: `{"dp": 2, "pp": 2, "tp": 2}`. **The last axis varies fastest.** So with these sizes
# rank 5 has the coordinates dp 1, pp 0, tp 1, since $5 = 1 \cdot 4 + 0 \cdot 2 + 1$:
#
# | rank | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
# |---|---|---|---|---|---|---|---|---|
# | dp | 0 | 0 | 0 | 0 | 1 | 1 | 1 | 1 |
# | pp | 0 | 0 | 1 | 1 | 0 | 0 | 1 | 1 |
# | tp | 0 | 1 | 0 | 1 | 0 | 1 | 0 | 1 |
#
# Any axis may come first, and a mesh may have others, or fewer. Sizes are at least 1.
#
# A **group** of an axis holds the ranks that differ along this axis and have all other coordinates alike.

# %% readonly="setup"
from collections.abc import Callable, Mapping, Sequence

import torch

from distlib import Communicator, SimulatedWorld, all_reduce

eight = SimulatedWorld(8)  # eight ranks to try things on

# %% [markdown]
# ## 1. The groups of this rank: `build_mesh`
#
# Every rank is in one group of each axis. `comm.split(color, key)` makes communicators: ranks that give the same color
# come into the same group, ordered by their keys. A color is any whole number of at least 0. **All ranks must call it,
# for the same axes in the same order**: it is a collective call.
#
# In the mesh above, rank 6 gets a group of two ranks for each axis: with rank 2 along `dp`, where it is number 1; with
# rank 4 along `pp`, number 1; with rank 7 along `tp`, number 0.
#
# A mesh that has more ranks than there are, or fewer, is a mistake of the caller's. Say so, with both numbers.
#
# If your `mesh_groups` of exercise 12 helps you, copy it into the cell below.


# %% solution="build_mesh"
def build_mesh(comm: Communicator, sizes: Mapping[str, int]) -> dict[str, Communicator]:
    """The group of this rank along each axis of a mesh. Sends no message; every rank calls
    `split` once for each axis.

    Args:
        comm: the communicator of this rank.
        sizes: how many ranks there are along each axis, in the order of the mesh; the last axis
            varies fastest. It must not change.

    Returns:
        By axis, the communicator of the group that this rank is in. In it, the rank's number is
        its coordinate.

    Raises:
        ValueError: the sizes do not multiply out to `comm.world_size`. The text names their
            product and the world size.
    """
    ### BEGIN SOLUTION
    product = 1
    for size in sizes.values():
        product *= size
    if product != comm.world_size:
        raise ValueError(
            f"a mesh {dict(sizes)} has {product} ranks, and the world has {comm.world_size}"
        )
    mesh, stride = {}, product
    for axis, size in sizes.items():
        stride //= size
        coordinate = comm.rank // stride % size
        mesh[axis] = comm.split(color=comm.rank - coordinate * stride, key=coordinate)
    return mesh
    ### END SOLUTION


# %% [markdown]
# **Try it.** A cell like this one gives no marks. Change it as you like.


# %%
def numbers(comm: Communicator) -> dict[str, str]:
    mesh = build_mesh(comm, {"dp": 2, "pp": 2, "tp": 2})
    return {axis: f"{group.rank} of {group.world_size}" for axis, group in mesh.items()}


for rank, told in enumerate(eight.run(numbers)):
    print(f"rank {rank}: {told}")

# %% [markdown]
# **Visible test: 2 points.** It lets the groups talk to each other: so it knows who is in each.

# %% test="build_mesh_visible" points=2
from distlib.exercises import check_build_mesh

report = check_build_mesh(
    build_mesh,
    meshes=[{"dp": 2, "pp": 2, "tp": 2}, {"dp": 2, "tp": 2}, {"dp": 1}],
    refused=[(4, {"dp": 3, "tp": 2})],
)
assert report[0].results[6]["ranks"] == {"dp": 1, "pp": 1, "tp": 0}
print(report)

# %% [markdown]
# **Hidden test: 2 points.** Other meshes, and others that do not multiply out.

# %% test="build_mesh_hidden" points=2
# The hidden tests of build_mesh stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: axes in other orders, axes of one rank, more ranks, and meshes with too many ranks or too few.
from distlib.exercises import check_build_mesh

report = check_build_mesh(
    build_mesh,
    meshes=[
        {"tp": 2, "dp": 3},
        {"pp": 2, "dp": 4, "tp": 1},
        {"dp": 2, "cp": 1, "tp": 2},
        {"pp": 3, "cp": 2, "dp": 1, "tp": 3},
        {"tp": 4},
        {"pp": 1},
    ],
    refused=[(4, {"dp": 2, "pp": 1, "tp": 3}), (6, {"pp": 2, "tp": 2})],
    seed=122,
)
assert report[1].results[6]["ranks"] == {"pp": 1, "dp": 2, "tp": 0}
### END HIDDEN TESTS

# %% [markdown]
# ## 2. One step on a mesh: `hybrid_step`
#
# Every rank calls it with its mesh, its part of its stage, and its microbatches.
#
# | axis | what its ranks have in common | what they do |
# |---|---|---|
# | `tp` | the same stage, the same samples | each has a part of every matrix of the stage |
# | `pp` | the same samples | each has another stage of the model |
# | `dp` | the same part of the same stage | each has other samples |
#
# **The stage takes care of `tp`.** When you call `stage(values)`, the ranks of `tp` add up what they have computed, and
# when a gradient goes back through it, they do so again. So all ranks of a `tp` group call it for the same microbatches
# and go back through it in the same order. What comes out is the same on all of them, and nothing is left to do along
# `tp`.
#
# **Along `pp`** it is the pipeline of exercise 09, and the numbers of `mesh["pp"]` are the stages. A rank that is not
# the first receives what goes into its stage, of the shape that `shapes` says, in float64; after that it calls
# `requires_grad_()` on it. A rank that is not the last sends on `output.detach()`, the numbers alone, and receives the
# gradient of what came out. Any order of the passes is right that ends: all forward passes first, then the backward
# passes, both in the order of the microbatches, and `send` and `recv` never wait for each other in a circle.
#
# **Along `dp`** the gradients are added up, when all microbatches have gone back. `loss_function` returns a **sum**
# over the samples of one microbatch. Divided by `global_batch_size`, the number of samples of all replicas together, it
# is this microbatch's part of the mean loss. So the sum over microbatches and replicas is the mean, although these have
# different numbers of samples. `all_reduce(mesh["dp"], tensor)` adds up a tensor of any shape over the group, in place,
# also a `.grad`; with one rank it does nothing. One call for each gradient, or one for all of them in a flat tensor:
# that is up to you, and so is writing your own.
#
# **The loss** of the whole batch is returned by every rank of the last stage: so the replicas add up their parts of it,
# too.
#
# With dp 2, pp 2 and tp 1, and two microbatches on each replica:
#
# | rank | dp, pp | does |
# |---|---|---|
# | 0 | 0, 0 | forward 0, forward 1, backward 0, backward 1; adds up its gradients with rank 2 |
# | 1 | 0, 1 | the same with what rank 0 sends; adds up its gradients, and the loss, with rank 3 |
# | 2 | 1, 0 | as rank 0, with other samples |
# | 3 | 1, 1 | as rank 1, with what rank 2 sends |


# %% solution="hybrid_step"
def hybrid_step(
    mesh: Mapping[str, Communicator],
    stage: torch.nn.Module,
    shapes: Sequence[Sequence[int]],
    inputs: Sequence[torch.Tensor] | None,
    targets: Sequence[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    global_batch_size: int,
) -> float | None:
    """The gradients of one batch, on a mesh of dp × pp × tp.

    Afterwards parameter.grad of every parameter of the stage is the gradient of the mean loss
    over the samples of all replicas. Before each call it is None. Nothing else that was given
    changes, and inputs get no gradient. All tensors are float64.

    Args:
        mesh: the groups "dp", "pp" and "tp" of this rank. Any of them may have one rank only.
        stage: this rank's part of the stage that has the number of its rank along pp; all its
            parameters need a gradient. It talks to the ranks of tp itself. Call it once for
            each microbatch.
        shapes: for each microbatch of this replica the shape of what goes into the stage,
            [samples, features]. What comes out has the same shape. All replicas have equally
            many microbatches.
        inputs: on the first stage the input of each microbatch; else None.
        targets: on the last stage the targets of each microbatch; else None.
        loss_function: loss_function(outputs, targets) is the sum over the samples of a
            microbatch, shape [].
        global_batch_size: the number of samples of all replicas together.

    Returns:
        On the last stage the mean loss over the samples of all replicas, as a float; else None.

    Cost: along pp, for each microbatch, a message with the output to the next stage, and one
        with the gradient of the input to the stage before. Along dp as many bytes as one
        all-reduce of all gradients, and on the last stage of the loss, takes.
    """
    ### BEGIN SOLUTION
    pp, dp = mesh["pp"], mesh["dp"]
    is_first, is_last = pp.rank == 0, pp.rank == pp.world_size - 1
    passed, total = [], torch.zeros(1, dtype=torch.float64)
    for i, shape in enumerate(shapes):
        if is_first:
            entry = inputs[i]
        else:
            entry = torch.empty(*shape, dtype=torch.float64)
            pp.recv(entry, pp.rank - 1)
            entry.requires_grad_()
        output = stage(entry)
        if is_last:
            output = loss_function(output, targets[i]) / global_batch_size
            total += output.detach()
        else:
            pp.send(output.detach(), pp.rank + 1)
        passed.append((entry, output))
    for entry, output in passed:
        gradient = torch.ones_like(output)
        if not is_last:
            pp.recv(gradient, pp.rank + 1)
        output.backward(gradient)
        if not is_first:
            pp.send(entry.grad, pp.rank - 1)
    for parameter in stage.parameters():
        all_reduce(dp, parameter.grad)
    if not is_last:
        return None
    all_reduce(dp, total)
    return total.item()
    ### END SOLUTION


# %% [markdown]
# **Try it** on eight ranks. The stage here has no part for `tp`: each of its ranks computes the same. The last line is
# what a single process computes.


# %%
batches = [[torch.full((2, 3), 1.0 + replica), torch.full((1, 3), 2.0)] for replica in range(2)]
batches = [[each.double() for each in own] for own in batches]


def layer(number: int) -> torch.nn.Module:
    # a layer's weights depend on the layer, and not on how the model is cut
    torch.manual_seed(number)
    return torch.nn.Linear(3, 3).double()


def squares(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).square().sum()


def try_step(comm: Communicator) -> tuple[float | None, float]:
    mesh = build_mesh(comm, {"dp": 2, "pp": 2, "tp": 2})
    own, stage = batches[mesh["dp"].rank], layer(mesh["pp"].rank)
    shapes = [list(each.shape) for each in own]
    inputs, targets = (
        (own, None) if mesh["pp"].rank == 0 else (None, [0 * each for each in own])
    )
    loss = hybrid_step(mesh, stage, shapes, inputs, targets, squares, global_batch_size=6)
    return loss, stage.bias.grad[0].item()


for rank, (loss, gradient) in enumerate(eight.run(try_step)):
    print(f"rank {rank}: loss {loss}, first gradient {gradient:.6f}")
samples, stages = torch.cat([each for own in batches for each in own]), [layer(0), layer(1)]
loss = squares(stages[1](stages[0](samples)), 0 * samples) / 6
loss.backward()
print(
    f"alone:  loss {loss.item()}, first gradients",
    *(f"{each.bias.grad[0].item():.6f}" for each in stages),
)

# %% [markdown]
# **Visible test: 4 points.** It compares loss and gradients with those of a single process, and looks at each message.
# One case has another loss function, and one calls `hybrid_step` twice, with gradients that were cleared between.
# Numbers of features are drawn where none is given, and `gains` are further parameters of each stage, by which its
# output is multiplied.

# %% test="hybrid_step_visible" points=4
from distlib.exercises import MeshPlan, check_hybrid_step

report = check_hybrid_step(
    hybrid_step,
    layouts=[
        MeshPlan({"dp": 1, "pp": 2, "tp": 1}, samples=[[2, 2]], features=3),
        MeshPlan({"dp": 2, "pp": 1, "tp": 1}, samples=[[2, 1], [1, 3]]),
        MeshPlan({"dp": 2, "pp": 1, "tp": 2}, samples=[[2], [1]], gains=1),
        MeshPlan({"dp": 2, "pp": 2, "tp": 2}, samples=[[2, 1], [3, 1]]),
        MeshPlan(
            {"dp": 2, "pp": 2, "tp": 1}, samples=[[1, 1, 2], [2, 1, 1]], loss="absolute error"
        ),
        MeshPlan({"dp": 1, "pp": 3, "tp": 1}, samples=[[2, 1]], calls=2),
        MeshPlan({"dp": 1, "pp": 1, "tp": 1}, samples=[[1, 2]]),
    ],
)
assert report[0].trace.messages_sent == [2, 2]
assert report[0].trace.bytes_sent == [4 * 3 * 8] * 2  # 4 samples of 3 features
print(report)

# %% [markdown]
# **Hidden test: 5 points.** Other meshes, other orders of the axes, more microbatches.

# %% test="hybrid_step_hidden" points=5
# The hidden tests of hybrid_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 12 ranks, axes in other orders, up to 6 microbatches, replicas with different samples.
from distlib.exercises import MeshPlan, check_hybrid_step

report = check_hybrid_step(
    hybrid_step,
    layouts=[
        MeshPlan({"tp": 1, "pp": 2, "dp": 1}, samples=[[1, 3]], features=5),
        MeshPlan({"tp": 2, "dp": 3, "pp": 1}, samples=[[1], [2], [1]]),
        MeshPlan({"pp": 2, "dp": 2, "tp": 2}, samples=[[1, 2], [2, 3]], gains=3),
        MeshPlan({"tp": 2, "pp": 3, "dp": 2}, samples=[[2, 1], [1, 1]]),
        MeshPlan({"pp": 2, "tp": 1, "dp": 2}, samples=[[2, 1], [1, 3]], loss="absolute error"),
        MeshPlan({"dp": 1, "pp": 2, "tp": 2}, samples=[[1, 2, 1]], calls=3),
        MeshPlan({"tp": 1, "pp": 3, "dp": 1}, samples=[[1, 2, 4, 1, 3, 2]]),
        MeshPlan({"pp": 2, "tp": 3, "dp": 1}, samples=[[2, 1, 1, 3, 2]], gains=2),
        MeshPlan({"pp": 4, "dp": 1, "tp": 1}, samples=[[1, 2, 1, 3, 1]]),
        MeshPlan({"dp": 1, "pp": 1, "tp": 1}, samples=[[2, 1]]),
    ],
    drawn=[(2, 2, 1)],
    seed=123,
)
assert report[0].trace.bytes_sent == [4 * 5 * 8] * 2
assert len(report) == 11
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The norm of all gradients: `clip_gradients`
#
# Gradients are clipped by the norm of **all** of them, of the whole model: $\sqrt{\sum g^2}$, over every number of
# every gradient, **each counted once**. No rank has them all. Where are they?
#
# | axis | `sharded` | `replicated` |
# |---|---|---|
# | `tp` | each rank has another part | all ranks have the same |
# | `pp` | each rank has another stage's | each rank has another stage's |
# | `dp` | all ranks have the same | all ranks have the same |
#
# For example, with dp 2, pp 1 and tp 2, let rank 0 have the sharded gradient $[3]$, rank 1 the sharded gradient $[4]$,
# both the replicated one $[12]$. Ranks 2 and 3 have the same again. The norm is $\sqrt{3^2 + 4^2 + 12^2} = 13$.
#
# If it is larger than `max_norm`, all gradients are multiplied by `max_norm` divided by the norm. Else they stay as
# they are.


# %% solution="clip_gradients"
def clip_gradients(
    mesh: Mapping[str, Communicator],
    sharded: Sequence[torch.Tensor],
    replicated: Sequence[torch.Tensor],
    max_norm: float,
) -> float:
    """Scales all gradients, in place, so that the norm of all of them is at most `max_norm`.

    Args:
        mesh: the groups "dp", "pp" and "tp" of this rank. Any of them may have one rank only.
        sharded: the gradients of parameters of which each rank of tp has another part; float64,
            any shapes, any number of them, perhaps none. All ranks of tp have equally many,
            stages may have other numbers.
        replicated: the gradients of those that all ranks of tp have; float64.
        max_norm: above 0.

    Returns:
        The norm of all gradients of the model before, as a float; the same on every rank, up to
        rounding.

    Cost: messages of one or two numbers along tp and pp, none along dp.
    """
    ### BEGIN SOLUTION
    squares = torch.zeros(1, dtype=torch.float64)
    for gradient in sharded:
        squares += gradient.square().sum()
    all_reduce(mesh["tp"], squares)
    for gradient in replicated:
        squares += gradient.square().sum()
    all_reduce(mesh["pp"], squares)
    norm = squares.sqrt().item()
    if norm > max_norm:
        for gradient in [*sharded, *replicated]:
            gradient *= max_norm / norm
    return norm
    ### END SOLUTION


# %% [markdown]
# **Try it** on the example, with two stages that have the same gradients: $\sqrt{2 \cdot 13^2} = 18.38$. Clipped to
# half of that, each number is half as large.


# %%
def try_clip(comm: Communicator) -> tuple[float, list[float]]:
    mesh = build_mesh(comm, {"dp": 2, "pp": 2, "tp": 2})
    sharded = [torch.tensor([3.0 + mesh["tp"].rank], dtype=torch.float64)]
    replicated = [torch.tensor([12.0], dtype=torch.float64)]
    norm = clip_gradients(mesh, sharded, replicated, max_norm=13 / 2**0.5)
    return norm, [sharded[0].item(), replicated[0].item()]


for rank, (norm, gradients) in enumerate(eight.run(try_clip)):
    print(f"rank {rank}: norm {norm:.4f}, gradients {gradients}")

# %% [markdown]
# **Visible test: 2 points.**

# %% test="clip_gradients_visible" points=2
from distlib.exercises import check_clip_gradients

report = check_clip_gradients(
    clip_gradients,
    meshes=[
        {"dp": 1, "pp": 1, "tp": 2},
        {"dp": 1, "pp": 2, "tp": 1},
        {"dp": 2, "pp": 1, "tp": 1},
        {"dp": 2, "pp": 2, "tp": 2},
        {"dp": 1, "pp": 1, "tp": 1},
    ],
)
assert max(message.nbytes for message in report[3].trace) <= 16
print(report)

# %% [markdown]
# **Hidden test: 3 points.** Other meshes, norms that are small enough, ranks without any gradient of a kind.

# %% test="clip_gradients_hidden" points=3
# The hidden tests of clip_gradients stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: larger meshes, other orders, norms below the limit and tiny ones, many gradients and none.
from distlib.exercises import check_clip_gradients

report = check_clip_gradients(
    clip_gradients,
    meshes=[
        {"tp": 2, "pp": 1, "dp": 1},
        {"tp": 3, "pp": 1, "dp": 1},
        {"pp": 3, "tp": 1, "dp": 1},
        {"tp": 1, "dp": 3, "pp": 1},
        {"pp": 2, "dp": 2, "tp": 2},
        {"tp": 2, "pp": 3, "dp": 2},
        {"dp": 1, "pp": 1, "tp": 1},
    ],
    also=[[], [5], [6, 7], [1, 1, 5, 1, 3]],
    seed=124,
)
check_clip_gradients(
    clip_gradients, meshes=[{"dp": 1, "pp": 2, "tp": 2}], spread=1e-5, seed=125
)
assert max(message.nbytes for message in report[4].trace) <= 16
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Now with torch's own: `train_on_mesh`
#
# torch has the mesh, and layers that are cut along it. Now you write a program that trains on dp × tp with them. On
# each rank `torch.distributed` is initialized already: use its functions, and no `comm`. What you need of torch:
#
# | call | what it does |
# |---|---|
# | `init_device_mesh("cpu", sizes, mesh_dim_names=names)` | the mesh; `mesh["tp"]` is this rank's group along tp |
# | `parallelize_module(block, mesh["tp"], plan)` | cuts layers; `plan`, a dict, has a style for each layer's name |
# | `fully_shard(module, mesh=mesh["dp"])` | makes a unit of the parameters in `module` that are in no unit yet |
# | `get_total_norm(gradients)` | of `torch.nn.utils`: the norm of a list of gradients, as a DTensor |
# | `clip_grads_with_norm_(parameters, max_norm, norm)` | of `torch.nn.utils`: clips `.grad` of each by this norm |
#
# A block computes `values + down(tanh(up(norm(values))))`. Along tp `up` is cut by columns (`ColwiseParallel()`), and
# `down` by rows (`RowwiseParallel()`): so a block makes one all-reduce forward and one backward. Then dp shards what tp
# has left: each block is a unit, and the rest of the model is the last one. Both calls change the module itself, and
# put new parameters in the place of the old ones: DTensors. What begins with them, such as an optimizer, comes later.
#
# **Clipping.** `clip_grad_norm_` does not work here. The parameters of `up` and `down` lie on a mesh of both axes, all
# others on dp alone, and torch does not compute with tensors of two meshes. `parameter.device_mesh` tells a parameter's
# mesh; equal meshes may be keys of a dict. So take the norm of each group of parameters. `norm.full_tensor()` makes a
# plain tensor of it, in which each number of the group is counted once, whatever the axes have copied. The norm of all
# is the root of the sum of squares, and **each group is clipped by the norm of all**.
#
# For example, let the norms of the groups be 3 and 4, and `max_norm` 1. The norm is $\sqrt{3^2 + 4^2} = 5$. All
# gradients are multiplied by $1 / 5$: afterwards the norms of the groups are 0.6 and 0.8.
#
# What a rank sends in one step, besides a few numbers for the norm:
#
# | | each block | the rest |
# |---|---:|---:|
# | all-gathers along dp | 2 | 1 |
# | reduce-scatters along dp | 1 | 1 |
# | all-reduces along tp | 2 | 0 |
#
# Leave other options of these calls as they are. Lessons 12 and 12c have all of it in their sections "In real
# frameworks".

# %% readonly="setup_torch"
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)


# %% solution="train_on_mesh"
def train_on_mesh(
    model: torch.nn.Module,
    dp_size: int,
    tp_size: int,
    steps: Sequence[tuple[torch.Tensor, torch.Tensor]],
    rate: float,
    max_norm: float,
) -> list[float]:
    """Train a model on dp x tp with torch's own parts and torch.optim.SGD, and clip its
    gradients. torch's default process group is open, and spans all ranks.

    Args:
        model: on the CPU, the same on all ranks, in float64. model.blocks is a
            torch.nn.ModuleList. Each block has the layers norm (LayerNorm), up and down
            (Linear). Besides, the model has layers of its own. Afterwards it is trained.
        dp_size, tp_size: the sizes of the axes. Their product is the number of ranks, and tp
            varies fastest. Either of them may be 1. tp_size divides the outputs of up.
        steps: for each step the batch of this rank's replica: inputs [samples, features] and
            targets [samples, outputs]. Ranks that differ along tp alone have the same. All
            batches have equally many samples. Not changed.
        rate: the learning rate.
        max_norm: what the norm of a step's gradient is at most, after clipping.

    Returns:
        The norm of the whole gradient in each step, before clipping: floats, the same on all
        ranks.

    The loss of a step is the mean over all replicas of
        torch.nn.functional.mse_loss(model(inputs), targets).

    Cost of a step: along dp each block is all-gathered twice, the rest of the model once (or
        twice, which costs no points), and the gradients of each unit are reduce-scattered
        once. Along tp each block makes two all-reduces. The norm takes a few numbers.
    """
    ### BEGIN SOLUTION
    mesh = init_device_mesh("cpu", (dp_size, tp_size), mesh_dim_names=("dp", "tp"))
    for block in model.blocks:
        parallelize_module(
            block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()}
        )
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device_mesh, []).append(parameter)
    norms = []
    for inputs, targets in steps:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        parts = [
            torch.nn.utils.get_total_norm([parameter.grad for parameter in group])
            for group in groups.values()
        ]
        norm = torch.stack([part.full_tensor() for part in parts]).norm()
        for group in groups.values():
            torch.nn.utils.clip_grads_with_norm_(group, max_norm, norm)
        norms.append(norm.item())
        optimizer.step()
    return norms
    ### END SOLUTION


# %% [markdown]
# **Try it** on four ranks. `torch_distributed(comm)` initializes torch's process group over the ranks of `comm`. Which
# rows and columns of `up` does each rank have? With dp 4 and tp 1 the norms are the same if the replicas' batches are.


# %%
import logging

from distlib import torch_distributed


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = torch.nn.LayerNorm(4), torch.nn.Linear(4, 8)
        self.down = torch.nn.Linear(8, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.down(self.up(self.norm(values)).tanh())


class Tower(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.last = torch.nn.Linear(4, 2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            values = block(values)
        return self.last(values)


def try_mesh(comm: Communicator, dp_size: int, tp_size: int) -> tuple[list[float], str]:
    # torch warns that the norm of a group takes two all-reduces, one along each axis
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    torch.manual_seed(0)
    model, batch = Tower().double(), (torch.randn(3, 4).double(), torch.randn(3, 2).double())
    with torch_distributed(comm):
        assert dist.get_world_size() == dp_size * tp_size
        norms = train_on_mesh(model, dp_size, tp_size, [batch] * 2, rate=0.1, max_norm=0.5)
        up = model.blocks[0].up.weight
        part = f"{list(up.to_local().shape)} {up.placements}"
        return [round(norm, 4) for norm in norms], part


four = SimulatedWorld(4, contexts="threads")
for sizes in ((2, 2), (4, 1)):
    for rank, (norms, up) in enumerate(four.run(try_mesh, *sizes)):
        print(f"dp, tp {sizes}, rank {rank}: norms {norms}, up {up}")

# %% [markdown]
# **Visible test: 3 points.** It looks at the shape of each rank's part, compares parts and norms with those of one
# process, and looks at the kind and the size of each message.

# %% test="train_on_mesh_visible" points=3
from distlib.exercises import TwoAxes, check_train_on_mesh

report = check_train_on_mesh(
    train_on_mesh,
    meshes=[
        TwoAxes(2, 2, widths=(5, 6, 12, 2), blocks=1, steps=3, rows=4),
        TwoAxes(3, 2, widths=(5, 7, 12, 3), blocks=2, relative_norm=2.0),
        TwoAxes(2, 1, widths=(5, 6, 8, 3), blocks=3),
        TwoAxes(1, 2, widths=(5, 6, 8, 3), blocks=2),
        TwoAxes(1, 1, widths=(5, 6, 8, 3), blocks=2),
    ],
)
# three blocks of 122 numbers, and a rest of 64 with its padding, of which a rank sends a half
step = (3 * (2 + 1) * 61 + (1 + 1) * 32) * 8
assert all(2 * step <= sent <= 2.5 * step for sent in report[2].trace.bytes_sent)
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Other sizes of the axes, other models, other rates and norms.

# %% test="train_on_mesh_hidden" points=4
# The hidden tests of train_on_mesh stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: axes of one to four ranks, one to four blocks, one to four steps, with and without clipping.
from distlib.exercises import TwoAxes, check_train_on_mesh

report = check_train_on_mesh(
    train_on_mesh,
    meshes=[
        TwoAxes(2, 2, widths=(3, 8, 14, 5), blocks=3, relative_norm=0.3),
        TwoAxes(2, 3, widths=(5, 8, 18, 2), blocks=2, steps=1, rows=5),
        TwoAxes(3, 2, widths=(6, 5, 10, 4), blocks=4, relative_norm=3.0),
        TwoAxes(4, 1, widths=(4, 8, 9, 2), blocks=2, steps=3),
        TwoAxes(1, 2, widths=(6, 7, 10, 4), blocks=3, rows=2),
        TwoAxes(1, 3, widths=(6, 7, 12, 4), blocks=1, rows=2),
        TwoAxes(1, 1, widths=(6, 5, 7, 2), blocks=3, steps=4),
    ],
    seed=131,
)
assert len(report) == 7
step = (2 * (2 + 1) * 51 + (1 + 1) * 19) * 8
assert all(3 * 3 * step <= sent <= 3 * 4 * step for sent in report[3].trace.bytes_sent)
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 12c_layouts` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("12c_layouts")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("12c_layouts")
