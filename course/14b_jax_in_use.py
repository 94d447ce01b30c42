# %% [markdown]
# # JAX in use: processes, memory, compilation
#
# **This lesson is optional.** No later lesson needs it. It is for those who take JAX from one machine to several, and
# from a model that fits to one that does not.
#
# After it you will be able to
#
# - start a program on several processes, hand over only the part of a batch that each process has read, and see three
#   mistakes in that which raise no error,
# - say what becomes of such a program when a process dies,
# - trade memory for computation with `jax.checkpoint`, and count both,
# - give the old parameters away with `donate_argnums`, and see when a step is compiled again.
#
# **Time:** about 60 minutes. **You need:** [JAX](14_jax.ipynb). No GPU.

# %%
from distlib.frameworks import fetch, require

fetch("jax")  # some minutes, the first time
jax = require("jax")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 4)  # before JAX looks for devices

# %%
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from distlib import Communicator, World
from distlib.draw import compare_costs, predict
from distlib.frameworks import Process, addresses, run_processes
from distlib.training import digits

Params = Mapping[str, Any]
RATE, BATCH = 0.5, 256

train_set, _ = digits()
all_images = train_set.images.flatten(1).numpy()
all_labels = train_set.labels.numpy().astype(np.int32)
first = {"W": np.zeros((64, 10), np.float32), "b": np.zeros(10, np.float32)}


def loss_of(params: Params, images: Any, labels: Any) -> jax.Array:
    """The mean loss (cross entropy) over these images. The model is one layer."""
    wanted = jax.nn.one_hot(labels, 10)
    outputs = images @ params["W"] + params["b"]
    return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(outputs), axis=1))


def step(params: Params, images: Any, labels: Any) -> tuple[Params, jax.Array]:
    """One step of gradient descent: the new parameters, and the loss before it."""
    loss, gradient = jax.value_and_grad(loss_of)(params, images, labels)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradient), loss


# %% [markdown]
# ## Several processes
#
# On several machines every process drives its own devices. Each calls `jax.distributed.initialize` with the address of
# the first one, the number of processes, and its own number. From then on `jax.devices()` are the devices of *all*
# processes, and each must run the same program. An array may be larger than what a process can see:
# `addressable_shards` are its own pieces, hence the name.
#
# Here are two processes with two devices each, on this machine. `together` is what each of them does at the start.
# (`show` leaves out what JAX itself logs.)


# %%
def together(address: str, number: int, **options: int) -> Mesh:
    """Join the two processes; a mesh of the devices of both."""
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(address, 2, number, **options)
    print(f"{len(jax.devices())} devices, {len(jax.local_devices())} of them mine")
    return Mesh(np.array(jax.devices()), ("ranks",))


def show(name: str, line: str) -> None:
    if "Terminating process" in line:
        line = f"{line[line.index('Terminating') :][:130]} …"
    elif not line.startswith(("step", "I ", "4 devices", "(killed", "an exc")):
        return
    print(f"{name} │ {line}")


(address,) = addresses(1)


def two_processes(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Run function(address, number) in two processes."""
    processes = {f"process {n}": Process(function, address, n) for n in range(2)}
    return run_processes(processes, seconds=100, on_output=show, **options)


# %% [markdown]
# ### Each process has read a part of the batch
#
# A process reads its own files: it has 128 of 256 images. `jax.make_array_from_process_local_data(sharding, mine)`
# makes one array of what all processes hand over, and moves nothing between them. Each piece stays where it was read.
# The program is the `step` from above, for whole arrays. The parameters are the same numbers everywhere, so there
# `device_put` with `P()` will do.


# %%
def train_on_my_part(address: str, number: int) -> dict[str, Any]:
    """Three steps, each with a batch of which this process has half."""
    mesh = together(address, number)
    by_rank, whole = NamedSharding(mesh, P("ranks")), NamedSharding(mesh, P())
    params = jax.device_put(first, whole)
    placed_step = jax.jit(step, out_shardings=(whole, whole))
    for k in range(3):
        begin = k * BATCH + number * BATCH // 2
        own = slice(begin, begin + BATCH // 2)
        mine = all_images[own], all_labels[own]
        batch = [jax.make_array_from_process_local_data(by_rank, each) for each in mine]
        params, loss = placed_step(params, *batch)
    pieces = [piece.data.shape for piece in batch[0].addressable_shards]
    print(
        f"I handed over {mine[0].shape} of {batch[0].shape}, my devices have {pieces}"
    )
    print(f"I see the loss {float(loss):.4f}")
    return {name: np.asarray(array) for name, array in params.items()}


in_two = [outcome.value for outcome in two_processes(train_on_my_part).values()]
alone: Params = first
for k in range(3):
    batch = slice(k * BATCH, (k + 1) * BATCH)
    alone, loss = jax.jit(step)(alone, all_images[batch], all_labels[batch])
off = max(np.abs(one[k] - alone[k]).max() for one in in_two for k in alone)
print(f"one process, with the whole batch: {float(loss):.4f}; weights {off:.0e} off")
assert off < 1e-6 and np.abs(alone["W"]).max() > 0.01

# %% [markdown]
# The images were in two processes, and only gradients were sent. (On one process it works as well, with all of the
# batch. So the same program runs on a laptop.)
#
# ### Three mistakes without an error
#
# JAX believes what it is told. Each process now hands over numbers in three wrong ways:
#
# 1. with `P()`: "this is whole, and the same everywhere". But process 0 has 0, 1, 2, 3, and process 1 has 10, 11, 12,
#    13.
# 2. with `P("ranks")`, but every process hands over the *whole* batch of 8.
# 3. with `P("ranks")`, but process 0 has six numbers and process 1 only four, as at the end of an epoch.

# %%
guess_1 = predict(
    "The first mistake: each process then takes the mean of the array. What does process 1 get?",
    choices=["6.5, the mean of all eight", "11.5, the mean of its own", "an error"],
)


# %%
def hand_over_wrongly(address: str, number: int) -> dict[str, tuple[Any, ...]]:
    """The shape and the mean of arrays that are made wrongly; and what device_put says."""
    mesh = together(address, number)
    by_rank, whole = NamedSharding(mesh, P("ranks")), NamedSharding(mesh, P())
    mine = np.arange(4.0) + 10 * number
    given = {
        "right": (by_rank, mine),
        "other numbers, as if the same": (whole, mine),
        "the whole batch from each": (by_rank, np.arange(8.0)),
        "six and four": (by_rank, mine if number else np.arange(6.0)),
    }
    found: dict[str, tuple[Any, ...]] = {}
    for name, (where, numbers) in given.items():
        array = jax.make_array_from_process_local_data(where, numbers)
        mean = jax.jit(jnp.mean)(array) if name != "six and four" else np.nan
        found[name] = array.shape, float(mean)
    try:
        jax.device_put(mine, whole)
    except Exception as error:
        found["device_put"] = type(error).__name__, str(error)[:80]
    return found


told = [outcome.value for outcome in two_processes(hand_over_wrongly).values()]
for name in told[0]:
    print(f"{name:30} process 0: {told[0][name]}  process 1: {told[1][name]}")
mean = told[1]["other numbers, as if the same"][1]
print(guess_1.compare("11.5, the mean of its own" if mean == 11.5 else str(mean)))

# %% tags=["folded"]
# Checks of the numbers above
assert [each["right"] for each in told] == [((8,), 6.5)] * 2
assert [each["other numbers, as if the same"] for each in told] == [
    ((4,), 1.5),
    ((4,), 11.5),
]
assert [each["the whole batch from each"] for each in told] == [((16,), 3.5)] * 2
assert [each["six and four"][0] for each in told] == [(12,), (8,)]
assert all("not the same on each process" in each["device_put"][1] for each in told)

# %% [markdown]
# 1. Each process has an array of its own, which JAX takes for one. Parameters that come in like this train apart.
#    `device_put` compares what processes hand over, and refuses. So use it for what is to be the same everywhere.
# 2. The batch has 16 numbers: each one twice. The mean is right, so no loss tells you. You only pay twice. (With
#    `global_shape=(8,)` as a third argument, each process takes its part of the whole.)
# 3. The processes don't agree on the shape: 12 and 8. Each compiles another program. We have not run it: what comes out
#    is anybody's guess. Fill up the last batch, or leave it out.
#
# **Print `array.shape` on every process before the first step.**
#
# **Try it.** Mend the second mistake: give `make_array_from_process_local_data` the shape of the whole batch, `(8,)`,
# as a third argument.


# %%
def hand_over_all(
    address: str, number: int
) -> tuple[tuple[int, ...], list[list[float]]]:
    """The shape, and what this process's devices have. Every process has read everything."""
    by_rank = NamedSharding(together(address, number), P("ranks"))
    array = jax.make_array_from_process_local_data(by_rank, np.arange(8.0))
    return array.shape, [piece.data.tolist() for piece in array.addressable_shards]


for name, outcome in two_processes(hand_over_all).items():
    print(name, *outcome.value)


# %% tags=["folded"]
# One way to do it
def hand_over_own(
    address: str, number: int
) -> tuple[tuple[int, ...], list[list[float]]]:
    by_rank = NamedSharding(together(address, number), P("ranks"))
    array = jax.make_array_from_process_local_data(by_rank, np.arange(8.0), (8,))
    return array.shape, [piece.data.tolist() for piece in array.addressable_shards]


mended = [outcome.value for outcome in two_processes(hand_over_own).values()]
print(mended)
assert mended == [((8,), [[0, 1], [2, 3]]), ((8,), [[4, 5], [6, 7]])]

# %% [markdown]
# ### A process is killed
#
# In each step the two processes sum up what the four devices have. After step 3 we kill process 1.

# %%
guess_2 = predict(
    "Process 1 is killed. What becomes of process 0?",
    choices=["it goes on alone", "an exception", "it waits forever", "it is aborted"],
)


# %%
def sum_again_and_again(address: str, number: int) -> None:
    mesh = together(address, number, heartbeat_timeout_seconds=4)
    mine = np.array([[1.0, 10], [100, 1000]])[number]
    by_rank = NamedSharding(mesh, P("ranks"))
    array = jax.make_array_from_process_local_data(by_rank, mine)
    print("I have", [float(each.data[0]) for each in array.addressable_shards])
    add = partial(lax.psum, axis_name="ranks")
    total = jax.jit(shard_map(add, mesh=mesh, in_specs=P("ranks"), out_specs=P()))
    for step in range(1000):
        try:
            result = float(total(array).addressable_shards[0].data[0])
        except Exception as error:
            print(f"an exception: {type(error).__name__}")
            raise
        print(f"step {step}: {result:.0f}")
        time.sleep(0.2)


outcomes = two_processes(sum_again_and_again, kill={"process 1": "step 3"})
for name, outcome in outcomes.items():
    print(f"{name}: exit status {outcome.exit_status}")
became = {
    0: "it goes on alone",
    1: "an exception",
    -signal.SIGKILL: "it waits forever",  # until we ended it
    -signal.SIGABRT: "it is aborted",
}
print(guess_2.compare(became[outcomes["process 0"].exit_status]))

# %% tags=["folded"]
# Checks of the cell above, and of the sentences below
import inspect

statuses = [outcome.exit_status for outcome in outcomes.values()]
assert statuses == [-signal.SIGABRT, -signal.SIGKILL] == [-6, -9]
assert not any("an exception" in line for line in outcomes["process 0"].lines)
for outcome, has in zip(outcomes.values(), ([1, 10], [100, 1000]), strict=True):
    assert "4 devices, 2 of them mine" in outcome.lines
    assert f"I have {[float(number) for number in has]}" in outcome.lines
    assert "step 3: 1111" in outcome.lines
options = inspect.signature(jax.distributed.initialize).parameters
assert options["heartbeat_timeout_seconds"].default == 100
assert not jax.config.jax_enable_recoverability  # the default

# %%
outcomes = two_processes(sum_again_and_again, kill={"process 0": "step 3"})
print("process 0 is killed; process 1:", became[outcomes["process 1"].exit_status])
assert outcomes["process 1"].exit_status in (1, -signal.SIGABRT)

# %% [markdown]
# Process 0 waits in its next sum, and no exception comes that your program could catch. When the last heartbeat of
# process 1 is 4 seconds old (by default 100), JAX aborts process 0, with signal 6. The other way round, in the second
# cell, it depends on who is quicker: process 1 gets an exception from the closed connection, or is aborted because the
# service that all processes report to has gone with process 0. Nobody goes on. So a job like this is restarted as a
# whole, from a checkpoint. (An experimental mode, `jax_enable_recoverability`, lets the others go on: see [Fault
# tolerance](https://docs.jax.dev/en/latest/fault_tolerance.html).) In our `World` the same death is a `PeerLost` error
# that names the rank, and the parameter server of lesson 07c goes on without it.
#
# ## Memory against computation: `jax.checkpoint`
#
# The backward pass needs what the forward pass has computed: the **activations** of each layer. For a deep network and
# a large batch they take more memory than the parameters. `jax.checkpoint(f)` is the same function, but nothing from
# inside of it is kept. The backward pass computes it again, from the input of `f`. (The name has nothing to do with a
# file. Torch calls it the same.)
#
# Here are 64 layers of width 64, for a batch of 1,024. They run in a loop, `lax.scan`, and the compiler says how much
# memory it needs besides arguments and results, and how many products of matrices there are. With `block=1` each layer
# is computed again, with `block=8` eight layers at a time: then only eight inputs are kept.

# %%
LAYERS, WIDTH, MANY = 64, 64, 1024
generator = np.random.default_rng(0)
deep = generator.standard_normal((LAYERS, WIDTH, WIDTH)).astype(np.float32) / WIDTH**0.5
inputs = generator.standard_normal((MANY, WIDTH)).astype(np.float32)


def layer(x: jax.Array, W: jax.Array) -> tuple[jax.Array, None]:
    return jnp.tanh(x @ W), None


def deep_loss(deep: Any, inputs: Any, block: int = 0) -> jax.Array:
    """block: how many layers are computed again together; 0: none is."""

    def layers(x: jax.Array, some: jax.Array) -> tuple[jax.Array, None]:
        return lax.scan(layer, x, some)[0], None

    blocks = deep.reshape(-1, block or 1, WIDTH, WIDTH)
    x, _ = lax.scan(jax.checkpoint(layers) if block else layers, inputs, blocks)
    return jnp.mean(x**2)


# %%
guess_3 = predict(
    "Each layer's forward pass is one product of matrices, its backward pass two. "
    "By which factor do the operations grow if every layer is computed again?",
)

# %%
costs, gradients = {}, {}
for block in (0, 1, 4, 8, 64):
    program = jax.jit(jax.grad(partial(deep_loss, block=block))).lower(deep, inputs)
    compiled = program.compile()
    gradients[block] = np.asarray(compiled(deep, inputs))
    costs[f"blocks of {block}" if block else "all is kept"] = {
        "MiB of memory": compiled.memory_analysis().temp_size_in_bytes / 2**20,
        "products per layer": compiled.as_text().count(" dot("),
    }
for name, cost in costs.items():
    print(f"{name:15}", *(f"{what}: {value:5.1f}" for what, value in cost.items()))
kept, again = costs["all is kept"], costs["blocks of 1"]
print(guess_3.compare(again["products per layer"] / kept["products per layer"]))
compare_costs(costs, title="The gradient of 64 layers, with parts computed again")

# %% tags=["folded"]
# Checks of the numbers above and below
memory = [cost["MiB of memory"] for cost in costs.values()]
products = [cost["products per layer"] for cost in costs.values()]
assert products == [3, 4, 4, 4, 4]
assert memory[1] < 0.6 * memory[0] and memory[3] < 0.8 * memory[1]
assert memory[2] < memory[3] and memory[4] > 2 * memory[3]
assert all(np.allclose(each, gradients[0], atol=1e-6) for each in gradients.values())
assert MANY * WIDTH * 4 == 2**18  # bytes of an activation: a quarter of a MiB


def products_of(layer: Any) -> int:
    """In the program of a Python loop over four layers."""

    def loss(deep: Any) -> jax.Array:
        x = inputs
        for k in range(4):
            x = layer(x, deep[k])
        return jnp.mean(x**2)

    return jax.jit(jax.grad(loss)).lower(deep[:4]).compile().as_text().count(" dot(")


def plain_layer(x: jax.Array, W: jax.Array) -> jax.Array:
    return jnp.tanh(x @ W)


assert products_of(jax.checkpoint(plain_layer)) == products_of(plain_layer)

# %% [markdown]
# The same gradient, for a third more products: 4 instead of 3. (`products per layer` counts the lines in the program.
# Each is in a loop that runs over all layers.) The memory depends on how much is computed again at once. With small
# blocks many inputs are kept. With one large block all activations are there again in the backward pass. In between is
# the best, of the order of $\sqrt{L}$ layers per block: here 4, less than 8, because a layer that is computed again
# keeps about three arrays, and a block only one. (An array of this batch has a quarter of a MiB.)
#
# This is where a compiler gets in the way: written as a Python loop instead of `lax.scan`, the compiler for processors
# finds that the same product is computed twice, and keeps the first one. So count here as well.
#
# **Try it.** Other blocks. Which of 1, 2, 4, 8, 16, 32 needs the least memory?

# %%
block = 8
mine = jax.jit(jax.grad(partial(deep_loss, block=block))).lower(deep, inputs).compile()
print(f"{mine.memory_analysis().temp_size_in_bytes / 2**20:.1f} MiB")


# %% tags=["folded"]
# One way to do it
def mebibytes(block: int) -> float:
    function = jax.jit(jax.grad(partial(deep_loss, block=block)))
    analysis = function.lower(deep, inputs).compile().memory_analysis()
    return analysis.temp_size_in_bytes / 2**20


by_block = {block: mebibytes(block) for block in (1, 2, 4, 8, 16, 32)}
print({block: f"{value:.1f} MiB" for block, value in by_block.items()})
assert min(by_block, key=lambda block: by_block[block]) in (4, 8)

# %% [markdown]
# ### Give the old parameters away
#
# A step makes new parameters, and the old ones are not needed any more. But the caller has them, so both are in memory.
# With `donate_argnums=0` the caller gives the first argument away, and the results may take its place.

# %%
params = {"W": jax.device_put(deep)}


def decay(params: Params) -> Params:
    return {name: 0.9 * array for name, array in params.items()}


for donated in ((), (0,)):
    compiled = jax.jit(decay, donate_argnums=donated).lower(params).compile()
    needs = compiled.memory_analysis()
    more = needs.output_size_in_bytes - needs.alias_size_in_bytes
    print(
        f"donated: {donated!s:5} {needs.argument_size_in_bytes:,} bytes, and {more:,} more"
    )

new = jax.jit(decay, donate_argnums=0)(params)
gone = ""
try:
    print(params["W"][0])
except RuntimeError as error:
    gone = str(error)
print(gone)
assert "deleted" in gone and new["W"].shape == deep.shape

# %% tags=["folded"]
# Check of the numbers above
# The last one is that of the donated step
assert needs.argument_size_in_bytes == deep.nbytes
assert needs.alias_size_in_bytes == deep.nbytes and more < 64

# %% [markdown]
# If JAX took the memory, who looks at the old parameters gets an error, and no wrong numbers. If it could not, they
# stay as they were, and nothing is saved: so it is with numpy arrays, and where no result has their shape and type (JAX
# warns of that).
#
# ## Compiling again and again
#
# JAX runs your Python code only to find out what to compile: it **traces** it. A later call with arrays of the same
# shapes and types, in the same places, uses the compiled program. So a counter in the function counts how often it is
# traced. An epoch of 1,536 images in batches of 100 has 16 steps.

# %%
guess_4 = predict(
    "Two epochs in batches of 100 images, 32 steps. How often is the step traced?",
    unit="times",
)

# %%
traced = 0


def counting_step(params: Params, images: Any, labels: Any) -> tuple[Params, jax.Array]:
    global traced
    traced += 1
    return step(params, images, labels)


def times_traced(function: Callable[..., Any], starts: Sequence[int]) -> int:
    """How often `counting_step` is traced in steps whose batches begin there."""
    before, params = traced, first
    for start in starts:
        chosen = slice(start, start + 100)
        params, _ = function(params, all_images[chosen], all_labels[chosen])
    return traced - before


an_epoch = range(0, len(all_images), 100)
kept = times_traced(jax.jit(counting_step), [*an_epoch, *an_epoch])
print(f"jit before the loop, {2 * len(an_epoch)} steps: traced {kept} times")


def careless(params: Params, images: Any, labels: Any) -> tuple[Params, jax.Array]:
    return jax.jit(lambda *arrays: counting_step(*arrays))(params, images, labels)


thrown_away = times_traced(careless, an_epoch[:3])
print(f"jit of a new function in each step, 3 steps: traced {thrown_away} times")
print(guess_4.compare(kept))

# %% tags=["folded"]
# Checks of the numbers above
assert kept == 2 and thrown_away == 3
assert len(an_epoch) == 16 and len(all_images) % 100 == 36
events: list[str] = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, into=events, **about: into.append(event.rsplit("/")[-1])
)
assert times_traced(careless, an_epoch[:1]) == 1
assert events.count("backend_compile_duration") == 1  # what is traced is compiled

# %% [markdown]
# Twice: for 100 images, and for the 36 that are left. If compiling takes minutes, leave the rest out. Or fill it up,
# and give the filling weight 0 in the loss: a mean counts empty images, too.
#
# The other loop makes a new function in every step. JAX knows programs by their function, so it traces and compiles in
# every step. Nothing is wrong but the time.
#
# **Try it.** Shapes are not everything. A step is traced again if the *type* of an argument changes, too. Hand over the
# labels once as `int32` and once as `int64`, or a learning rate once as a number of Python and once as a `jnp.float32`.
# How often is it traced?

# %%
tried = jax.jit(lambda *arrays: counting_step(*arrays))
before = traced
for labels in (all_labels[:100], all_labels[:100]):
    tried(first, all_images[:100], labels)
print(traced - before, "times")

# %% tags=["folded"]
# One way to do it
# JAX makes int32 of int64, unless it is told to use 64 bits: so there is no second time for int64
tried, before = jax.jit(lambda *arrays: counting_step(*arrays)), traced
for kind in ("int32", "int64", "int8"):
    tried(first, all_images[:100], all_labels[:100].astype(kind))
    print(kind, traced - before)
assert traced - before == 2

# A number of Python has a "weak" type, which takes on that of what it meets. That of a
# float32 is another one
with_rate, before = jax.jit(lambda rate, *arrays: counting_step(*arrays)), traced
for rate in (0.1, 0.2, jnp.float32(0.1), jnp.float32(0.2)):
    with_rate(rate, first, all_images[:100], all_labels[:100])
    print(rate, traced - before)
assert traced - before == 2

# %% [markdown]
# *Where* arrays lie counts as well. Here are four steps over four devices, with batches of one shape, twice:


# %%
four = Mesh(np.array(jax.devices()), ("ranks",))


def traced_in_each(params: Params) -> list[int]:
    """Four data-parallel steps that begin with these parameters: how often each is traced."""
    marks: list[int] = []

    def marking_step(*arrays: Any) -> tuple[Params, jax.Array]:
        marks.append(number)
        return step(*arrays)

    by_rank, whole = NamedSharding(four, P("ranks")), NamedSharding(four, P())
    placing = jax.jit(marking_step, out_shardings=whole)
    for number in range(4):
        batch = slice(number * BATCH, (number + 1) * BATCH)
        placed = jax.device_put((all_images[batch], all_labels[batch]), by_rank)
        params, _ = placing(params, *placed)
    return [marks.count(number) for number in range(4)]


from_numpy = traced_in_each(first)
from_devices = traced_in_each(jax.device_put(first, NamedSharding(four, P())))
print("from numpy:", from_numpy, "  after device_put:", from_devices)
assert from_numpy == [1, 1, 0, 0] and from_devices == [1, 0, 0, 0]

# %% [markdown]
# In the first step the parameters come from numpy. In the second one they lie on four devices. That is another program,
# so it is traced and compiled once more, and from then on nothing is. `device_put` before the first step saves that.
#
# To count traces is not enough, though. Here one array is cut in three ways. `events` is a list of what JAX reports
# that it does (the folded cell above has asked for that), and compiling is among it.


# %%
def traced_and_compiled(
    places: Sequence[P], mesh: Mesh = four
) -> list[tuple[int, int]]:
    """A sum of an array in each of these places: how often it is traced, and how often compiled."""
    marks: list[P] = []

    def total(array: jax.Array) -> jax.Array:
        marks.append(place)
        return array.sum()

    function, found = jax.jit(total), []
    for place in places:
        array = jax.device_put(np.ones((8, 8)), NamedSharding(mesh, place))
        before = events.count("backend_compile_duration")
        function(array)
        now = events.count("backend_compile_duration")
        found.append((marks.count(place), now - before))
    return found


by_place = traced_and_compiled([P(), P("ranks"), P(None, "ranks")])
print("(traced, compiled):", by_place)
assert by_place == [(1, 1), (0, 1), (0, 1)]

# %% tags=["folded"]
# Checks of what is said below and above
explicit = jax.make_mesh((len(jax.devices()),), ("ranks",))
by_type = traced_and_compiled([P(), P("ranks"), P(None, "ranks")], explicit)
assert [traced for traced, _ in by_type] == [1, 1, 1]
numbers = jax.numpy.ones((8, 8))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    jax.jit(lambda array: array.sum(), donate_argnums=0)(numbers)
assert "donated" in str(caught[0].message) and numbers[0, 0] == 1

# %% [markdown]
# Compiled three times, and traced once: on a mesh like ours the cut is no part of an array's type. A counter in the
# function shows nothing of that. (On a mesh from `jax.make_mesh` the cut is a part of it, and each one is traced as
# well.)
#
# ## In real frameworks
#
# JAX is one. In torch each rank has its own part from the start, and there is no array of the whole. The first mistake
# can't be made with the parameters: DDP sends rank 0's to all. The second one can: let every rank load the whole batch,
# and the gradient is right there, too, and you pay twice. (Forget only the `DistributedSampler`, with half the batch
# for each rank. Without shuffling, or with the same seed on all ranks, they compute the *same* half: the gradient is
# that of half the batch. With a seed each, they draw halves that overlap.) Here are the three steps from above in
# torch, on two ranks with the same halves, and then with that mistake.

# %%
from torch.nn.parallel import DistributedDataParallel

from distlib import torch_distributed


def train_in_torch(comm: Communicator, halves: bool = True) -> dict[str, np.ndarray]:
    model = torch.nn.Linear(64, 10)
    for parameter in model.parameters():
        parameter.data.zero_()
    with torch_distributed(comm, "gloo"):
        ddp = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE)
        for k in range(3):
            begin = k * BATCH + comm.rank * BATCH // 2
            own = slice(begin, begin + BATCH // 2)
            own = own if halves else slice(k * BATCH, (k + 1) * BATCH)
            labels = torch.tensor(all_labels[own]).long()
            optimizer.zero_grad()
            outputs = ddp(torch.tensor(all_images[own]))
            torch.nn.functional.cross_entropy(outputs, labels).backward()
            optimizer.step()
    return {"W": model.weight.detach().numpy().T, "b": model.bias.detach().numpy()}


with World(2) as world:
    in_torch, with_all = (world.run(train_in_torch, h)[0] for h in (True, False))
off = max(np.abs(in_torch[name] - in_two[0][name]).max() for name in first)
print(f"torch's DDP and JAX's two processes: {off:.0e} apart")
off_with_all = max(np.abs(in_torch[name] - with_all[name]).max() for name in first)
print(f"torch's DDP with halves, and the whole batch on each: {off_with_all:.0e} apart")
assert off < 1e-5 and off_with_all < 1e-5

# %% [markdown]
# Torch's mean is one of means: each rank takes the mean over its half, and DDP averages. With unequal parts the two
# differ, see [lesson 04](04_data_parallel.ipynb). JAX has the mean over the whole array.
#
# ## In short
#
# - With several processes JAX believes what each one hands over: print the shape on every process.
# - When a process dies, the others end, too: restart from a checkpoint.
# - `jax.checkpoint` keeps the inputs of a block and computes the rest again.
# - Donate what you replace: JAX may use its memory again.
# - Another shape, type or function is traced and compiled again.
#
# <details><summary>In more words, and where these sentences stop being true</summary>
#
# - With several processes JAX believes what each of them hands over: `make_array_from_process_local_data` compares
#   nothing. Print the shape on every process, and use `device_put` for what is the same everywhere.
# - When a process dies, the others end, too: aborted, sooner or later, or with an error of the connection. An
#   experimental mode is the exception. Restart from a checkpoint.
# - `jax.checkpoint` keeps the inputs of a block and computes the rest again: a third more products of matrices, if all
#   blocks do so, and the same gradient. How much memory that saves depends on the size of the blocks, and on the
#   compiler: look.
# - Donate what you replace. Who uses it afterwards gets an error, if JAX took the memory.
# - A step is traced and compiled again for another shape, another type and another function. Another place is compiled
#   again, and on a mesh like ours not traced: there a counter in the function shows nothing.
#
# </details>
#
# ## Now you
#
# [Exercise 14](../exercises/14_jax/14_jax.ipynb) belongs to lesson 14. Its `spmd_step` may donate its old parameters,
# and must not compile in every call.
#
# ## Further reading
#
# - JAX, [Introduction to multi-controller JAX](https://docs.jax.dev/en/latest/multi_process.html). Several processes.
# - JAX, [Gradient checkpointing with
#   `jax.checkpoint`](https://docs.jax.dev/en/latest/gradient-checkpointing.html). Also policies: what to keep.
# - JAX, [Fault tolerance](https://docs.jax.dev/en/latest/fault_tolerance.html). What you can do when a process dies.
# - T. Chen and others, [Training Deep Nets with Sublinear Memory Cost](https://arxiv.org/abs/1604.06174), 2016. The
#   square root.
