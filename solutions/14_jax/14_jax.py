# %% [markdown]
# # Exercise 14: JAX
#
# You write the ring all-reduce once more, in JAX; a training step that a mesh of devices does together; and the
# shardings that make one step data-parallel, tensor-parallel or fully sharded.
#
# - **Time:** about 120 minutes.
# - **Before:** read the lesson [JAX](../../course/14_jax.ipynb).
# - **Needs:** JAX, which this environment has where there is a JAX for your platform. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `ring_all_reduce` | 4 | 4 |
# | 2 | `spmd_step` | 5 | 5 |
# | 3 | `shardings` | 4 | 4 |
#
# That makes 26 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# There is no `comm` here. One process has eight virtual devices on your processor, and one program is compiled for all
# of them. The cell of a function may import what it needs, and define helpers.
#
# **Tests look at values and at the compiled program.** They compare with one device, and they count what the program
# communicates: what stands in a loop counts as often as the loop runs. `counted(collectives(…))` of
# `distlib.frameworks.jax_collectives`, as in the lesson, shows you the same counts.

# %% readonly="setup"
from distlib.frameworks import require

require("jax")  # one sentence, if this Python has no JAX
import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)  # before anything is computed

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

Params = Any  # a tree of arrays, such as {"W": …, "b": …}
# (params, inputs, targets) → the mean loss over these samples
LossOf = Callable[[Params, Any, Any], jax.Array]
# (params, inputs, targets) → new params, loss
Step = Callable[[Params, Any, Any], tuple[Params, jax.Array]]

# %% [markdown]
# ## 1. The ring, in JAX: `ring_all_reduce`
#
# Every device along the axis `axis_name` has a `piece`, all of one shape. Return their sum, on every device. Use the
# ring of exercise 02, and `lax.ppermute` for every step. With $N$ devices the piece is cut into $N$ chunks of one size.
#
# Three devices, chunks of one number. An arrow is what is sent to the next device.
#
# | | device 0 | device 1 | device 2 |
# |---|---|---|---|
# | pieces | 1, 2, **3** → | **10**, 20, 30 → | 100, **200**, 300 → |
# | after step 1 | 1, **202**, 3 → | 10, 20, **33** → | **110**, 200, 300 → |
# | after step 2 | **111**, 202, 3 → | 10, **222**, 33 → | 110, 200, **333** → |
# | after step 3 | 111, 202, **333** → | **111**, 222, 33 → | 110, **222**, 333 → |
# | after step 4 | 111, 222, 333 | 111, 222, 333 | 111, 222, 333 |
#
# - There are $2(N-1)$ steps. In each one every device sends one chunk to its neighbor in the ring, always $1/N$ of the
#   piece.
# - In the first $N-1$ steps a device adds what comes in, in the others it copies it. On which device a chunk is
#   complete first is up to you, and so is the direction.
# - The mesh may have other axes. Only the devices along `axis_name` add up: `lax.axis_size(axis_name)` is their number,
#   an `int`, and `lax.axis_index(axis_name)` this one's place among them.
# - JAX runs your code once, for all devices. So `lax.axis_index(…)` has no value yet: `if` can't ask for it, but
#   `chunks[index]` works, and `chunks.at[index].add(x)` and `chunks.at[index].set(x)` return a changed copy.
#   JAX does not complain of an index outside of $0 … N-1$, but takes or changes something else: take it `% N`.
# - If $N$ does not divide the number of elements, raise `ValueError` with both numbers in its text.


# %% solution="ring_all_reduce"
def ring_all_reduce(piece: jax.Array, axis_name: str) -> jax.Array:
    """The sum of the pieces of all devices along a mesh axis, by a ring. Runs under shard_map.

    Args:
        piece: this device's array, of any shape with S bytes; the same shape and dtype on each
            of the N devices.
        axis_name: of the mesh axis along which is summed. The mesh may have others.

    Returns:
        The sum, of the same shape and dtype. On one device that is the piece.

    Raises:
        ValueError: N does not divide the number of elements. The text names both numbers.

    Cost: 2(N - 1) ppermutes. In each, every device sends a chunk of S / N bytes to a neighbor,
    and gets one.
    """
    ### BEGIN SOLUTION
    devices, me = lax.axis_size(axis_name), lax.axis_index(axis_name)
    if piece.size % devices:
        raise ValueError(
            f"{piece.size} elements can't be cut into {devices} chunks of one size"
        )
    to_next = [(device, (device + 1) % devices) for device in range(devices)]
    chunks = piece.reshape(devices, -1)
    for step in range(devices - 1):
        arrived = lax.ppermute(chunks[(me - step) % devices], axis_name, to_next)
        chunks = chunks.at[(me - step - 1) % devices].add(arrived)
    for step in range(devices - 1):
        arrived = lax.ppermute(chunks[(me - step + 1) % devices], axis_name, to_next)
        chunks = chunks.at[(me - step) % devices].set(arrived)
    return chunks.reshape(piece.shape)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.
#
# `check_vma=False`: JAX does not keep track of what differs between devices. The tests do it like that, too.

# %%
from distlib.frameworks import collectives, counted

three = Mesh(np.array(jax.devices()[:3]), ("ranks",))
everywhere = jax.jit(
    shard_map(
        lambda row: ring_all_reduce(row[0], "ranks")[None],
        mesh=three,
        in_specs=P("ranks"),
        out_specs=P("ranks"),
        check_vma=False,
    )
)
rows = np.array([[1, 2, 3], [10, 20, 30], [100, 200, 300]], np.float32)
print(everywhere(rows))
found = collectives(everywhere.lower(rows).compile())
print(counted(found))
for each in found:
    print(each.kind, *each.shapes, each.pairs)

# %% [markdown]
# **Visible test: 4 points.** One, two and four devices.

# %% test="ring_all_reduce_visible" points=4
from distlib.exercises import Ring, check_jax_ring
from distlib.frameworks import collectives, counted

rings = [Ring([("ranks", devices)], "ranks", (2, 4)) for devices in (1, 2, 4)]
report = check_jax_ring(
    ring_all_reduce, rings=rings, uneven=[Ring([("ranks", 4)], "ranks", (10,))]
)
assert len(report) == 4
assert counted(collectives(report[2][0]["program"])) == {"collective-permute": 6}
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Other numbers of devices, other shapes and dtypes, and a mesh with two axes.

# %% test="ring_all_reduce_hidden" points=4
# The hidden tests of ring_all_reduce stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: 5 devices, whole numbers, other names, a mesh with two axes, a length that does not divide.
import torch

from distlib.exercises import Ring, check_jax_ring

grid = [("rows", 2), ("columns", 3)]
report = check_jax_ring(
    ring_all_reduce,
    rings=[Ring([("x", 5)], "x", (10,), torch.int32), Ring(grid, "columns", (1, 3, 2))],
    uneven=[Ring(grid, "rows", (3,))],
    seed=61,
)
assert len(report) == 3
assert report[0][0]["results"].shape == (5, 10)
### END HIDDEN TESTS

# %% [markdown]
# ## 2. A step on all devices: `spmd_step`
#
# Make a training step for a mesh with one axis: data-parallel gradient descent. `spmd_step(loss_of, mesh, rate)`
# returns a function, and this is how it is called:
#
#     step = spmd_step(loss_of, mesh, rate)
#     params, loss = step(params, inputs, targets)  # again and again, with other batches
#
# A model with one number, `w`, and the loss `mean((w * inputs - targets) ** 2)`. With `w = 1`, targets 0, rate 0.1, on
# two devices:
#
# | | device 0 | device 1 | one device with all four |
# |---|---|---|---|
# | inputs | 1, 2 | 3, 4 | 1, 2, 3, 4 |
# | loss, the mean of `inputs ** 2` | 2.5 | 12.5 | 7.5 |
# | gradient, `2 * w * loss` | 5 | 25 | 15 |
# | new `w`, from the average 15 | −0.5 | −0.5 | −0.5 |
#
# - `inputs` and `targets` are the whole batch, numpy arrays with $B$ samples along the first axis. The $N$ devices of
#   the mesh divide $B$. **Each device is handed $B/N$ samples,** and no other ones. Which ones is up to you.
# - `params` is a tree of arrays, such as a dict, or a dict of lists of dicts. (`jax.tree.map` goes through any tree.)
#   The caller has put them whole on every device of the mesh, and the new ones must lie there like that, too.
# - The step is what one device with the whole batch would do: `params - rate * gradient`, with the gradient of the mean
#   over all $B$ samples. The loss that is returned is that mean, before the step, a scalar on every device.
# - A device sends as much as in **one all-reduce of the gradients**, $2\frac{N-1}{N}S$ bytes for parameters of $S$
#   bytes, and at most 64 bytes more, for the loss. Your code need not name an all-reduce: what the compiled program
#   sends is what counts.
# - The step is **one program,** the update included. The first call compiles it, and perhaps the second, whose `params`
#   come from the first. From the third call on nothing may be compiled, as long as the batches have the same shapes.
# - What it returns depends on its arguments alone. It may donate the old parameters, but it does not put new ones into
#   the tree that it was given.
#
# How is up to you: `jit` and its `in_shardings`, `shard_map`, or arrays that your step takes to the devices itself. It
# may be any function: the tests find its program.


# %% solution="spmd_step"
def spmd_step(loss_of: LossOf, mesh: Mesh, rate: float) -> Step:
    """A step of data-parallel gradient descent on the devices of a mesh.

    Args:
        loss_of: loss_of(params, inputs, targets) is the mean loss over these samples, a scalar.
        mesh: has one axis, of any name, with N devices.
        rate: what the gradient is multiplied by.

    Returns:
        step(params, inputs, targets) → (new params, loss). params: a tree of arrays with S
        bytes, whole on every device, before and after. inputs, targets: numpy arrays with B
        samples, the whole batch; N divides B. loss: the mean over the batch, before the step; a
        scalar, on every device.

    Cost of a step: a device sends 2(N - 1)/N * S bytes, and at most 64 more. It is compiled in
    its first two calls only, as one program.
    """
    ### BEGIN SOLUTION
    whole, cut = NamedSharding(mesh, P()), NamedSharding(mesh, P(mesh.axis_names))

    def step(params: Params, inputs: Any, targets: Any) -> tuple[Params, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(params, inputs, targets)
        return jax.tree.map(lambda p, g: p - rate * g, params, gradient), loss

    return jax.jit(step, in_shardings=(whole, cut, cut), out_shardings=whole)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table.


# %%
def squares(params: Params, inputs: Any, targets: Any) -> jax.Array:
    return jnp.mean((params["w"] * inputs - targets) ** 2)


two = Mesh(np.array(jax.devices()[:2]), ("data",))
step = spmd_step(squares, two, 0.1)
start = {"w": jax.device_put(np.float32(1), NamedSharding(two, P()))}
batch = np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)
new, loss = step(start, *batch)
print(f"w = {new['w']:.2f}, loss {loss:.2f}")
if hasattr(step, "lower"):
    for each in collectives(step.lower(start, *batch).compile()):
        print(each.kind, *each.shapes)

# %% [markdown]
# **Visible test: 5 points.** Three steps, on two and on four devices; the third begins with the first parameters again.
# It looks at the numbers on every device, at what is compiled in each call, and at what the compiled program is handed
# and sends.

# %% test="spmd_step_visible" points=5
from distlib.exercises import Descent, check_spmd_step

report = check_spmd_step(spmd_step, plans=[Descent(2, samples=12), Descent(4, samples=24)])
assert len(report) == 2
assert [call["compiled"] for call in report[1][0]["calls"]][2:] == [0]
print(report)

# %% [markdown]
# **Hidden test: 5 points.** Other devices, trees and sizes of parameters, losses, samples and rates, more steps.

# %% test="spmd_step_hidden" points=5
# The hidden tests of spmd_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: 2 to 5 devices, not the first ones; lists of dicts; other losses, samples, rates, axes and sizes.
from distlib.exercises import Descent, check_spmd_step

report = check_spmd_step(
    spmd_step,
    plans=[
        Descent(3, samples=30, first=2, axis="x", widths=[4, 7, 2], steps=4),
        Descent(5, samples=20, model="list of layers", first=3, rate=0.3, widths=[6, 5, 7, 3]),
        Descent(2, samples=10, model="line"),
        Descent(3, samples=15, model="line", sample=[4, 2]),
    ],
    seed=62,
)
assert len(report) == 4
assert all(call["compiled"] == 0 for seen in report for call in seen[0]["calls"][2:])
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Three ways to cut a model: `shardings`
#
# `jit` with shardings, as in the lesson: a step for one device, and for each array a `PartitionSpec` that says where it
# lies. You write the specs, for a model with any even number of layers: `W1`, `b1`, `W2`, `b2`, and so on. Layer $k$
# computes `x @ Wk + bk`, with a ReLU after each layer but the last.
#
# `shapes` has the shape of every parameter by its name, in any order, and stays as it is. The mesh has one axis with
# $N$ devices. `way` is one of these:
#
# - `"data parallel"`: every device has all parameters, and its part of the batch.
# - `"tensor parallel"`: the layers go in pairs, 1 and 2, 3 and 4, and so on. Between the layers of a pair **nothing is
#   sent**. Every device has the whole batch, and $1/N$ of both weights of a pair. A bias is cut where a device uses
#   only a part of it, and whole where every device needs it. $N$ divides the width between the two layers of a pair,
#   but perhaps no other one.
# - `"fully sharded"`: every device has its part of the batch, and $1/N$ of every parameter that can be cut, which means
#   that $N$ divides one of its dimensions. Cut one: any that $N$ divides will do. A parameter without one stays whole.
#
# For anything else raise `ValueError`. Its text has the way that was asked for, and the three that there are.
#
# Tests look at the bytes that each device holds, and compile a training step with your specs, for a batch larger than
# the layers: for a small one the compiler may send samples in place of parameters. What it may send, besides a few
# bytes for the loss:
#
# | way | a device sends |
# |---|---|
# | data parallel | one all-reduce of the gradients |
# | tensor parallel | forward, an all-reduce of each pair's outputs; backward, of each pair's inputs, not the first's |
# | fully sharded | an all-reduce of the gradients, and an all-gather of the parameters that are cut |
#
# (XLA for processors makes that all-reduce, and each device keeps a part of the sum. Its compiler for GPUs makes a
# reduce-scatter of it, which sends half.)
#
# For example, the lesson's model on four devices: `W1` [64, 128], `b1` [128], `W2` [128, 10], `b2` [10]. It is one
# pair, with a width of 128 between its layers. A device holds
#
# | | data parallel | tensor parallel | fully sharded |
# |---|---:|---:|---:|
# | `W1` | 32,768 bytes | 8,192 | 8,192 |
# | `b1` | 512 | 128 | 128 |
# | `W2` | 5,120 | 1,280 | 1,280 |
# | `b2` | 40 | 40 | 40 |
#
# `P(None, "x")` cuts the second dimension along the mesh axis "x", and `P()` none.


# %% solution="shardings"
def shardings(
    mesh: Mesh, shapes: Mapping[str, tuple[int, ...]], way: str
) -> tuple[dict[str, P], P]:
    """Where the parameters and the batch of a training step lie.

    Args:
        mesh: has one axis, of any name, with N devices.
        shapes: of the parameters, by name, in any order: W1 [inputs, width], b1 [width], W2
            [width, …], and so on; an even number of layers. Stays as it is.
        way: "data parallel", "tensor parallel" or "fully sharded".

    Returns:
        The spec of each parameter by its name, and that of the batch, whose first dimension are
        the samples.

    Raises:
        ValueError: there is no such way. The text names it, and those that there are.

    Cost of a step: see the tables above.
    """
    ### BEGIN SOLUTION
    (axis,) = mesh.axis_names

    def first_that_divides(shape: tuple[int, ...]) -> P:
        cuttable = [k for k, length in enumerate(shape) if length % mesh.size == 0]
        return P(*[None] * cuttable[0], axis) if cuttable else P()

    if way == "data parallel":
        return {name: P() for name in shapes}, P(axis)
    if way == "fully sharded":
        return {name: first_that_divides(shape) for name, shape in shapes.items()}, P(axis)
    if way == "tensor parallel":
        by_columns = {"W": P(None, axis), "b": P(axis)}
        by_rows = {"W": P(axis, None), "b": P()}
        return {
            name: (by_columns if int(name[1:]) % 2 else by_rows)[name[0]] for name in shapes
        }, P()
    raise ValueError(
        f"expected 'data parallel', 'tensor parallel' or 'fully sharded', got {way!r}"
    )
    ### END SOLUTION


# %% [markdown]
# **Try it** on the lesson's model.

# %%
four = Mesh(np.array(jax.devices()[:4]), ("ranks",))
of_the_lesson = {"W1": (64, 128), "b1": (128,), "W2": (128, 10), "b2": (10,)}
for way in ("data parallel", "tensor parallel", "fully sharded"):
    specs, of_batch = shardings(four, of_the_lesson, way)
    print(f"{way}, batch {of_batch}")
    for name, spec in specs.items():
        held = NamedSharding(four, spec).shard_shape(of_the_lesson[name])
        print(
            f"    {name}: {str(spec):20} a device holds {held}, "
            f"{4 * np.prod(held, dtype=int):,} bytes"
        )

# %% [markdown]
# **Visible test: 4 points.** A model of four layers, on four devices.

# %% test="shardings_visible" points=4
from distlib.exercises import Cut, check_shardings
from distlib.frameworks import collectives, counted

ways = ("data parallel", "tensor parallel", "fully sharded")
report = check_shardings(
    shardings, cuts=[Cut(way, [12, 32, 8, 16, 4]) for way in ways], unknown=["data-parallel"]
)
assert len(report) == 4
assert counted(collectives(report[0][0]["program"])) == {"all-reduce": 1}
print(report)

# %% [markdown]
# **Hidden test: 4 points.** Other numbers of devices and of layers, widths that $N$ does not divide, another axis.

# %% test="shardings_hidden" points=4
# The hidden tests of shardings stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: 2 and 3 devices, 2 to 10 layers, widths that the devices do not divide, another axis, other ways.
from distlib.exercises import Cut, check_shardings

report = check_shardings(
    shardings,
    cuts=[
        Cut("fully sharded", [5, 9, 6, 4, 7], devices=3, axis="x"),
        Cut("tensor parallel", [5, 9, 6, 12, 7, 3, 4, 6, 9, 3, 4], devices=3, axis="x"),
        Cut("data parallel", [7, 6, 3], devices=2, axis="y", samples=10),
    ],
    unknown=["pipeline", "tensor", "Fully Sharded", "data-parallel"],
    seed=63,
)
assert len(report) == 7
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 14_jax` does the same with the saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("14_jax")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("14_jax")
