# %% [markdown]
# # JAX
#
# After this lesson you will be able to
#
# - run one function on several devices in three ways: `vmap`, `pmap`, and `shard_map` over a mesh,
# - read in the compiled program what is communicated, and count it in bytes,
# - make one training step data-parallel, tensor-parallel or fully sharded by saying where its arrays lie,
# - find the mistakes that raise no error, such as a gradient that is four times too large.
#
# **Time:** about 75 minutes. **You need:** [All-reduce](02_all_reduce.ipynb) and [DDP](05_ddp.ipynb). No GPU.

# %%
from distlib.frameworks import require

jax = require("jax")
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)  # before anything is computed

# %%
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from distlib import Communicator, World, all_reduce
from distlib.collectives import ring_all_gather
from distlib.draw import placements, predict
from distlib.frameworks import Process, addresses, run_processes, shard_shape
from distlib.frameworks.jax_collectives import bytes_sent, collectives, counted
from distlib.frameworks.jax_ring import ring_all_reduce
from distlib.network import traffic
from distlib.training.datasets import digits

print(jax.devices())
assert len(jax.devices()) == 8

# %% [markdown]
# ## One process, eight devices
#
# In our `World` every rank is a process. In JAX **one process drives all devices** of a machine, and one program is
# compiled for all of them. JAX calls this SPMD: single program, multiple data. The eight devices above are parts of
# one processor, so nothing gets faster here. But the compiler makes a program for eight devices of it, and we can read
# in it what they send to one another.
#
# The number of devices must be set before JAX computes anything. Later is too late, and that is an error:

# %%
try:
    jax.config.update("jax_num_cpu_devices", 4)
except RuntimeError as error:
    print(error)
    assert "before backends are initialized" in str(error)

# %% [markdown]
# ## A function for one rank
#
# There are two ways to write for many devices. The first is the one you know: say what **one rank** does. Here is the
# first run of lesson 02. Rank 0 brings ones, rank 1 tens, and so on. `lax.psum` is the all-reduce. "ranks" is the name
# of the axis along which it sums.


# %%
def sum_of_all(mine: jax.Array) -> jax.Array:
    return lax.psum(mine, "ranks")


rows = np.array([[1, 2, 3, 4]]) * 10.0 ** np.arange(4)[:, None]  # a row for each rank
rows = rows.astype(np.float32)
print(rows)

# %% [markdown]
# Three things can run such a function for every row:
#
# - `vmap` makes one larger computation of it, on a single device. "ranks" is then one more axis of an array.
# - `pmap` gives each row to a device of its own.
# - `shard_map` does so as well. It is told where the devices are, by a **mesh**, and how arrays are cut. `P("ranks")`
#   means: cut the first axis into one piece for each device along "ranks". `P()` means: everybody has the whole array.
#
# JAX compiles a function for the devices it is going to run on. The compiled program can be printed, and every
# communication in it has a name: `all-reduce`, `all-gather`, and so on. `counted(collectives(…))` counts them.

# %%
guess = predict(
    "vmap, pmap, shard_map: the same function on 4 rows. How many all-reduces has the program of vmap?",
)

# %%
four = Mesh(np.array(jax.devices()[:4]), ("ranks",))


def over_ranks(function: Callable[..., Any], mesh: Mesh = four) -> Callable[..., Any]:
    """Each device calls the function with its rows."""
    return shard_map(function, mesh=mesh, in_specs=P("ranks"), out_specs=P("ranks"))


ways = {
    "vmap": jax.jit(jax.vmap(sum_of_all, axis_name="ranks")),
    "pmap": jax.pmap(sum_of_all, axis_name="ranks"),
    "shard_map": jax.jit(over_ranks(sum_of_all)),
}
programs = {}
for name, function in ways.items():
    programs[name] = function.lower(rows).compile().as_text()
    result = function(rows)
    on = sorted(device.id for device in result.devices())
    print(f"{name:10} {np.asarray(result)[3]} on devices {on}", end="   ")
    print(counted(collectives(programs[name])))
    assert (np.asarray(result) == [1111, 2222, 3333, 4444]).all()
print(guess.compare(counted(collectives(programs["vmap"])).get("all-reduce", 0)))

# %% tags=["folded"]
# Checks of the numbers above
assert counted(collectives(programs["vmap"])) == {}
for name in ("pmap", "shard_map"):
    assert counted(collectives(programs[name])) == {"all-reduce": 1}
assert "shard_map/psum" in programs["pmap"]  # what pmap is made of today

# %% [markdown]
# The results are the same. But under `vmap` nobody sends anything: a sum over the ranks is a sum over an axis of an
# array. `vmap` is to JAX what `SimulatedWorld` is to us: another place for the same function, with as many ranks as
# you like (though without a clock).
#
# `pmap` is the older way to use several devices, and still works. Today it is made of `jit` and `shard_map`; you find
# that word in its compiled program. For new code JAX recommends `shard_map`: a mesh can have several axes, and an
# array may be cut along some and copied along others.
#
# This is the line that does it. There is one for all devices:

# %%
print(
    next(line for line in programs["shard_map"].splitlines() if "all-reduce(" in line)
)

# %% [markdown]
# ## A ring
#
# `lax.ppermute` is JAX's `exchange`. You give it pairs `(source, destination)`, the same list on every device. So the
# compiler knows every message before the program runs. A receive that nobody answers, as in lesson 01, can't even be
# written down.
#
# So what does this do? Device 3 sends to nobody, and nobody sends to device 0.

# %%
guess = predict(
    "Pairs (0, 1), (1, 2), (2, 3); device r has r + 10. What does device 0 have afterwards?",
    choices=["10, as before", "0", "an error", "it waits forever"],
)


# %%
def shift(mine: jax.Array) -> jax.Array:
    return lax.ppermute(mine, "ranks", [(0, 1), (1, 2), (2, 3)])


shifted = over_ranks(shift)(np.arange(4.0) + 10)
print(shifted)
print(guess.compare(f"{shifted[0]:.0f}"))
assert shifted.tolist() == [0, 10, 11, 12]

# %% tags=["folded"]
# A check of the sentence below: two senders to one destination
try:
    over_ranks(lambda mine: lax.ppermute(mine, "ranks", [(0, 1), (2, 1)]))(np.ones(4))
    raise SystemError("it should be refused")
except ValueError as error:
    assert "must be unique" in str(error)

# %% [markdown]
# A zero, and no error. A forgotten pair does not hang: **it becomes a zero in your data.** Two senders to one
# destination are an error.
#
# Here is the ring of lesson 02 in JAX: `ring_all_reduce` from `distlib.frameworks.jax_ring`. In each step a device
# cuts out one chunk, sends it to the next device with `ppermute`, and adds or copies what comes in. Count its
# steps, and compare with our ring on four real processes.

# %%
LENGTH = 1000

ring = jax.jit(over_ranks(lambda mine: ring_all_reduce(mine, "ranks")))
numbers = np.random.default_rng(0).standard_normal((4, LENGTH)).astype(np.float32)
in_jax = collectives(ring.lower(numbers).compile())


def in_our_world(comm: Communicator) -> torch.Tensor:
    tensor = torch.tensor(numbers[comm.rank])
    all_reduce(comm, tensor, algorithm="ring")
    return tensor


with World(4) as world:
    ours = world.run(in_our_world)
    trace = world.trace

print("JAX: ", counted(in_jax), f"{bytes_sent(in_jax):.0f} bytes sent by each device")
print("ours:", trace.messages_sent, "messages,", trace.bytes_sent, "bytes")
difference = np.abs(np.asarray(ring(numbers)) - np.stack([t.numpy() for t in ours]))
print("largest difference of the sums:", difference.max())

# %% tags=["folded"]
# Checks of the numbers above
assert counted(in_jax) == {"collective-permute": 6}
assert all(each.shapes == (f"f32[{LENGTH // 4}]",) for each in in_jax)
assert trace.messages_sent == [6] * 4
assert trace.bytes_sent == [bytes_sent(in_jax)] * 4 == [6000] * 4
assert difference.max() == 0

# %% [markdown]
# Six steps, 6,000 bytes, chunk by chunk as in lesson 02, and not one bit of difference: both rings add in the same
# order. With $N$ devices there are $2(N-1)$ steps, so the program gets longer with every device. For 64 devices it
# would be written with loops, `lax.fori_loop`: one for each phase. The same ring with `unroll=False` is written like
# that.

# %%
guess = predict(
    "8 devices, a loop for each phase. How many lines of the program have a collective-permute?",
    unit="lines",
)

# %%
eight = Mesh(np.array(jax.devices()), ("ranks",))
looped = jax.jit(
    over_ranks(lambda mine: ring_all_reduce(mine, "ranks", unroll=False), eight)
)
program = looped.lower(np.ones((8, LENGTH), np.float32)).compile()
in_loops = collectives(program)
for each in in_loops:
    print(f"{each.kind} of {each.shapes[0]}, {each.times} times")
print("in one call:", counted(in_loops))
print(guess.compare(len(in_loops)))

# %% tags=["folded"]
# Checks of the numbers above
assert len(in_loops) == 2 and all(each.times == 7 for each in in_loops)
assert counted(in_loops) == {"collective-permute": 14}
assert program.as_text().count(" collective-permute(") == 2
assert bytes_sent(in_loops) == traffic.ring_all_reduce(8, LENGTH, 4).nbytes[0] == 7000

# %% [markdown]
# Two lines, each in the body of a loop that runs 7 times. Searching the program for a word and counting the hits is
# thus wrong. `collectives` reads how often the loop runs, which the compiler has noted next to it.
#
# **Try it.** The all-reduce that is none, from the end of lesson 02: whole tensors go around the ring. How many steps
# does it take on 8 devices, and how many bytes does each send?


# %%
def whole_tensors(mine: jax.Array) -> jax.Array:
    devices = lax.axis_size("ranks")
    to_next = [(device, (device + 1) % devices) for device in range(devices)]
    total = passing = mine
    for _step in range(devices - 1):
        passing = lax.ppermute(passing, "ranks", to_next)
        total = total + passing
    return total


found = collectives(jax.jit(over_ranks(whole_tensors)).lower(numbers).compile())
print(counted(found), bytes_sent(found), "instead of", bytes_sent(in_jax))

# %% tags=["folded"]
# One way to do it: on `eight`, and rows for eight
eight_rows = np.ones((8, LENGTH), np.float32)
whole_on_8 = jax.jit(over_ranks(whole_tensors, eight))
found = collectives(whole_on_8.lower(eight_rows).compile())
print(counted(found), bytes_sent(found), "instead of", bytes_sent(in_loops))
assert counted(found) == {"collective-permute": 7}
assert bytes_sent(found) == 7 * 4 * LENGTH == 4 * bytes_sent(in_loops)
assert (np.asarray(whole_on_8(eight_rows)) == 8).all()

# %% [markdown]
# ## Arrays that know where they lie
#
# The second way is new: write the function for **whole arrays**, as for one device, and say where the arrays lie. The
# compiler cuts the computation to fit, and inserts whatever must be sent.
#
# A `NamedSharding` is a mesh and a `P`, one entry for each axis of the array. `P("ranks", None)` cuts the rows,
# `P(None, "ranks")` the columns. `jax.device_put` takes the array there. It stays one array for you: `W.shape` is the
# whole shape. `W.addressable_shards` are its pieces.


# %%
def put(array: Any, spec: P, mesh: Mesh = four) -> jax.Array:
    """The array, cut and copied over the mesh as `spec` says."""
    return jax.device_put(array, NamedSharding(mesh, spec))


W = np.arange(32.0, dtype=np.float32).reshape(8, 4)
cuts = {
    'P("ranks", None)': {"W": put(W, P("ranks", None))},
    'P(None, "ranks")': {"W": put(W, P(None, "ranks"))},
    "P()": {"W": put(W, P())},
}
for name, arrays in cuts.items():
    held = [shard.data.nbytes for shard in arrays["W"].addressable_shards]
    print(f"{name:17} shape {arrays['W'].shape}, bytes on the devices: {held}")
    assert held == ([128] * 4 if name == "P()" else [32] * 4)
placements(cuts, title="One array of 8 × 4, cut in three ways over four devices")

# %% [markdown]
# ## One training step, three ways to cut it
#
# The model is the classifier of the earlier lessons: images of 64 pixels, a hidden layer, ten digits. Here is a
# training step for one device. **Nothing in it knows of devices, and we are not going to change it.**

# %%
Params = Mapping[str, Any]
RATE = 0.5


def loss_of(params: Params, images: Any, labels: Any) -> jax.Array:
    """The mean loss (cross entropy) over these images."""
    hidden = jax.nn.relu(images @ params["W1"] + params["b1"])
    outputs = hidden @ params["W2"] + params["b2"]
    wanted = jax.nn.one_hot(labels, 10)
    return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(outputs), axis=1))


def step(params: Params, images: Any, labels: Any) -> tuple[Params, jax.Array]:
    """One step of gradient descent: the new parameters, and the loss before it."""
    loss, gradient = jax.value_and_grad(loss_of)(params, images, labels)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradient), loss


train_set, _ = digits()
all_images = train_set.images.flatten(1).numpy()
all_labels = train_set.labels.numpy().astype(np.int32)
torch.manual_seed(0)
layers = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
)
first = {
    "W1": layers[0].weight.detach().numpy().T.copy(),  # torch keeps [outputs, inputs]
    "b1": layers[0].bias.detach().numpy().copy(),
    "W2": layers[2].weight.detach().numpy().T.copy(),
    "b2": layers[2].bias.detach().numpy().copy(),
}
BATCH = 256
SIZE = sum(array.nbytes for array in first.values())
print(f"{SIZE // 4:,} parameters, {SIZE:,} bytes")
assert SIZE == 4 * (64 * 128 + 128 + 128 * 10 + 10) == 38_440

# %% [markdown]
# Three ways to place what goes in:
#
# - **Data parallel** (lesson 05): every device has all parameters and a quarter of the images.
# - **Tensor parallel** (lesson 10): every device has all images, a quarter of the columns of `W1`, and the rows of `W2`
#   that belong to them.
# - **Fully sharded** (lesson 11): every device has a quarter of the images *and* only a quarter of each parameter. Ten
#   numbers can't be cut into four equal pieces, so `b2` stays whole.

# %%
CUTS: dict[str, tuple[dict[str, P], P]] = {  # the parameters; the images and labels
    "data parallel": ({"W1": P(), "b1": P(), "W2": P(), "b2": P()}, P("ranks")),
    "tensor parallel": (
        {"W1": P(None, "ranks"), "b1": P("ranks"), "W2": P("ranks"), "b2": P()},
        P(),
    ),
    "fully sharded": (
        {"W1": P("ranks"), "b1": P("ranks"), "W2": P("ranks"), "b2": P()},
        P("ranks"),
    ),
}


def placed(way: str, batch: int = BATCH) -> tuple[Params, jax.Array, jax.Array]:
    """The first parameters and a batch, placed in this way."""
    specs, of_batch = CUTS[way]
    params = {name: put(first[name], spec) for name, spec in specs.items()}
    return params, put(all_images[:batch], of_batch), put(all_labels[:batch], of_batch)


pictures = {}
for way in CUTS:
    params, images, _ = placed(way)
    pictures[way] = {**params, "images": images}
placements(pictures, title="One training step, placed in three ways on four devices")


# %% tags=["folded"]
# Checks of the numbers in the picture, and of the sentences around it
def on_device_0(arrays: Mapping[str, Any]) -> int:
    return sum(array.addressable_shards[0].data.nbytes for array in arrays.values())


assert on_device_0(placed("data parallel")[0]) == SIZE
for way in ("tensor parallel", "fully sharded"):
    assert on_device_0(placed(way)[0]) == (SIZE - 40) // 4 + 40 == 9640
assert {way: on_device_0(arrays) for way, arrays in pictures.items()} == {
    "data parallel": SIZE + 16_384,
    "tensor parallel": 9_640 + 65_536,
    "fully sharded": 9_640 + 16_384,
}

# %% [markdown]
# Both ways of cutting the parameters leave 9,640 of 38,440 bytes on a device. An optimizer with a state, such as Adam,
# would have two more arrays per parameter, cut in the same way.
#
# Now compile `step` for each. What is sent? In the tensor-parallel step each device computes its part of the hidden
# layer from the whole images, and its part of a *sum* for the outputs. The sum needs an all-reduce. And the backward
# pass?

# %%
guess = predict(
    "Tensor parallel, forward and backward pass and the update. How many all-reduces?",
)


# %%
def compiled(way: str, batch: int = BATCH) -> Any:
    """`step` for arrays that are placed in this way; the new parameters stay there."""
    specs, _ = CUTS[way]
    stay = {name: NamedSharding(four, spec) for name, spec in specs.items()}
    whole = NamedSharding(four, P())
    function = jax.jit(step, out_shardings=(stay, whole))
    return function.lower(*placed(way, batch)).compile()


steps = {way: compiled(way) for way in CUTS}
for way in ("data parallel", "tensor parallel"):
    found = collectives(steps[way])
    print(f"{way}: {counted(found)}, {bytes_sent(found):,.0f} bytes sent by a device")
    for each in found:
        print("   ", each.kind, *each.shapes)
print(guess.compare(counted(collectives(steps["tensor parallel"]))["all-reduce"]))

# %% tags=["folded"]
# Checks of the numbers above
data, tensor = (collectives(steps[f"{way} parallel"]) for way in ("data", "tensor"))
assert counted(data) == counted(tensor) == {"all-reduce": 1}
assert len(data[0].shapes) == 5 and data[0].nbytes == SIZE + 4  # and the loss
assert bytes_sent(data) == 2 * 3 / 4 * (SIZE + 4) == 57_666
assert tensor[0].shapes == (f"f32[{BATCH},10]",)
assert bytes_sent(tensor) == 2 * 3 / 4 * BATCH * 10 * 4 == 15_360
with_pixels = jax.jit(jax.grad(loss_of, argnums=(0, 1)))
found = collectives(with_pixels.lower(*placed("tensor parallel")).compile())
assert [each.shapes for each in found] == [(f"f32[{BATCH},10]",), (f"f32[{BATCH},64]",)]

# %% [markdown]
# **Data parallel:** one all-reduce with five tensors in it, the four gradients and the loss. The compiler has put them
# into one bucket, as you did in lesson 05.
#
# **Tensor parallel:** one, of the outputs. The gradient of a device's columns and rows needs nothing from the others.
# The backward pass would need a second all-reduce for the gradient of the *images*, and nobody asks for that one. (If
# you differentiate by the images, too, it appears. A layer further up in a large model has that second one, because the
# layer below it asks.)
#
# A device sends 57,666 bytes in one case and 15,360 in the other: the ring's $2\frac{N-1}{N}S$, with $S$ the
# gradients or the outputs. (The program only says "all-reduce", not by which algorithm. None sends less, as lesson 02
# has shown.) The gradients don't depend on the batch. The outputs do.

# %%
guess = predict(
    "From which batch on does the tensor-parallel step send more than the data-parallel one?",
    unit="images",
)

# %%
for batch in (256, 960, 964):
    sent = {
        way: bytes_sent(collectives(compiled(way, batch)))
        for way in ("data parallel", "tensor parallel")
    }
    print(f"{batch:5} images:", {way: f"{sent[way]:,.0f}" for way in sent})
    assert sent["data parallel"] == 57_666
    assert sent["tensor parallel"] == 2 * 3 / 4 * batch * 10 * 4
equal = (SIZE + 4) / (10 * 4)
print(f"equal at {equal:.1f} images")
print(guess.compare(int(equal) + 1))

# %% tags=["folded"]
# Checks of the numbers above
assert 961 < equal < 962
assert 2 * 3 / 4 * 960 * 10 * 4 < 57_666 < 2 * 3 / 4 * 964 * 10 * 4
by_our_ring = traffic.ring_all_reduce(4, (SIZE + 4) // 4, 4).nbytes
assert all(abs(nbytes - 57_666) <= 4 for nbytes in by_our_ring)  # 9,611 numbers

# %% [markdown]
# 962 images: the 9,610 parameters and the loss make as many numbers as the ten outputs of 961 images. In general:
# gradients are sent once per step, activations once per image. So tensor parallelism suits large layers and small
# batches. And it needs fast links: the next layer can't begin before the sum of this one has arrived.
#
# ### Fully sharded
#
# Each device has a quarter of the parameters and needs all of them. So there must be all-gathers. And it needs the sum
# of a quarter of the gradients only: a reduce-scatter, half an all-reduce. Together as much as the data-parallel
# all-reduce sends, if the compiler finds that.

# %%
guess = predict(
    "Compared with the data-parallel step, how much does a device send in the fully sharded one?",
    choices=["as much", "half as much again", "twice as much"],
)

# %%
sharded = collectives(steps["fully sharded"])
print(counted(sharded), f"{bytes_sent(sharded):,.0f} bytes sent by a device")
for each in sharded:
    print("   ", each.kind, *each.shapes)
times = bytes_sent(sharded) / bytes_sent(data)
print(f"{times:.3f} times as much as data parallel")
print(guess.compare({1.0: "as much", 1.5: "half as much again"}[round(times, 1)]))

# %% tags=["folded"]
# Checks of the numbers above
assert counted(sharded) == {"all-reduce": 1, "all-gather": 3}
assert sharded[-1].shapes == data[0].shapes
assert bytes_sent(sharded) == 57_666 + 3 / 4 * (SIZE - 40)

# %% [markdown]
# Three all-gathers, and then the **same all-reduce as before**: every device gets the sum of all gradients, and throws
# three quarters away. The values are correct. A sharding says where arrays lie before and after. **How it gets from
# here to there is the compiler's choice**, and another version, or the compiler for GPUs, may choose otherwise. So may
# this one, for another batch. Here are 64 images instead of 256:

# %%
few = collectives(compiled("fully sharded", 64))
print(counted(few), f"{bytes_sent(few):,.0f} bytes sent by a device")
for each in few:
    if each.kind == "all-to-all" or each.shapes == ("f32[64,10]",):
        print("   ", each.kind, *each.shapes)

# %% tags=["folded"]
# Checks of the numbers above and below
assert counted(few) == {"all-reduce": 1, "all-gather": 4, "all-to-all": 1}
assert bytes_sent(few) == 94_530 > bytes_sent(sharded)
assert ("all-gather", ("f32[64,10]",)) in [(each.kind, each.shapes) for each in few]

# %% [markdown]
# Now something travels that depends on the images: an all-to-all, and an all-gather of the ten outputs of all 64. A
# device sends more than before, for a quarter of the images. So count, with the sizes that you are going to use.
#
# If you want to be sure, write what one device does, with `shard_map`. Only the forward pass needs a line: each device
# gathers the whole parameters from all pieces.

# %%
guess = predict(
    "We write all_gather in the forward pass. What does JAX make of it in the backward pass?",
    choices=["an all-gather", "an all-reduce", "a reduce-scatter", "nothing"],
)

# %%
pieces, _ = CUTS["fully sharded"]


def gather(params: Params) -> Params:
    """The whole parameters, from the pieces of all devices."""
    return {
        name: lax.all_gather(piece, "ranks", axis=0, tiled=True)
        if pieces[name] == P("ranks")
        else piece
        for name, piece in params.items()
    }


def sharded_step(params: Params, images: Any, labels: Any) -> tuple[Params, jax.Array]:
    """What one device does. It has pieces of the parameters, and its own images."""

    def mean_loss(mine: Params) -> jax.Array:
        return lax.pmean(loss_of(gather(mine), images, labels), "ranks")

    loss, gradient = jax.value_and_grad(mean_loss)(params)
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradient), loss


by_hand = jax.jit(
    shard_map(
        sharded_step,
        mesh=four,
        in_specs=(pieces, P("ranks"), P("ranks")),
        out_specs=(pieces, P()),
    )
)
steps["fully sharded, by hand"] = by_hand.lower(*placed("fully sharded")).compile()
hand = collectives(steps["fully sharded, by hand"])
print(counted(hand), f"{bytes_sent(hand):,.0f} bytes sent by a device")
for each in hand:
    print("   ", each.kind, *each.shapes)
print(guess.compare("a reduce-scatter"))

# %% tags=["folded"]
# Checks of the numbers above
assert counted(hand) == {"all-reduce": 1, "all-gather": 3, "reduce-scatter": 3}
assert [each.nbytes for each in hand if each.kind == "all-reduce"] == [40 + 4]
assert bytes_sent(hand) == bytes_sent(data)
pairs = [(each.kind, sorted(each.shapes)) for each in hand if each.kind != "all-reduce"]
assert sum(kind == "reduce-scatter" for kind, _ in pairs) == 3

# %% [markdown]
# Nobody wrote the reduce-scatters. **The backward pass of an all-gather is a reduce-scatter:** a piece was used on
# every device, so its gradient is the sum of all of theirs, and only the owner needs it. Now a device sends exactly as
# many bytes as in the data-parallel step. This is ZeRO, stage 3. (FSDP frees the whole parameters after the forward
# pass and gathers them again for the backward pass, which costs half as much again. Here they stay.) The small
# all-reduce is for the loss and for `b2`, which is not cut.
#
# ### Do they all compute the same?
#
# Twenty steps of each, against one device and against torch, with the same weights and the same batches.


# %%
def batch_of(number: int) -> tuple[np.ndarray, np.ndarray]:
    """The images and labels of step `number`."""
    start = number * BATCH % len(all_images)
    return all_images[start : start + BATCH], all_labels[start : start + BATCH]


def train(function: Callable[..., Any], params: Params, spec: P | None) -> Params:
    for number in range(20):
        images, labels = batch_of(number)
        if spec is not None:
            images, labels = put(images, spec), put(labels, spec)
        params, _ = function(params, images, labels)
    return params


def train_in_torch() -> dict[str, np.ndarray]:
    optimizer = torch.optim.SGD(layers.parameters(), lr=RATE)
    for number in range(20):
        images, labels = (torch.tensor(part) for part in batch_of(number))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(layers(images), labels.long()).backward()
        optimizer.step()
    arrays = [parameter.detach().numpy() for parameter in layers.parameters()]
    return {"W1": arrays[0].T, "b1": arrays[1], "W2": arrays[2].T, "b2": arrays[3]}


def furthest(one: Params, other: Params) -> float:
    """The largest difference of any parameter."""
    return max(
        float(np.abs(np.asarray(one[k]) - np.asarray(other[k])).max()) for k in one
    )


in_torch = train_in_torch()
alone = train(jax.jit(step), first, None)
print(f"moved by up to {furthest(alone, first):.2f}")
print("after 20 steps                 from one device    from torch")
for way, function in steps.items():
    cut = "fully sharded" if "by hand" in way else way
    params = train(function, placed(cut)[0], CUTS[cut][1])
    print(
        f"{way:30} {furthest(params, alone):12.1e} {furthest(params, in_torch):16.1e}"
    )
    assert furthest(params, alone) < 1e-5 and furthest(params, in_torch) < 1e-4
    assert on_device_0(params) == on_device_0(placed(cut)[0])
assert furthest(alone, first) > 0.1 and furthest(alone, in_torch) < 1e-4

# %% [markdown]
# Equal up to rounding. So values can't tell these programs apart, and can't say whether one of them is what you meant.
# Only what is communicated can.
#
# **Try it.** Cut `W1` by rows and `W2` by columns, and leave the images whole. (`P("ranks", None)`, then
# `P(None, "ranks")`: ten columns can't be cut into four, so leave `W2` whole, `P()`.) Is that still one all-reduce?

# %%
CUTS["mine"] = (
    {"W1": P(None, "ranks"), "b1": P("ranks"), "W2": P("ranks"), "b2": P()},
    P(),
)
for each in collectives(compiled("mine")):
    print(each.kind, *each.shapes)

# %% tags=["folded"]
# One way to do it
CUTS["mine"] = ({"W1": P("ranks", None), "b1": P(), "W2": P(), "b2": P()}, P())
found = collectives(compiled("mine"))
for each in found:
    print(each.kind, *each.shapes)
print(f"{bytes_sent(found):,.0f} bytes instead of {bytes_sent(tensor):,.0f}")
one_device = jax.jit(step).lower(first, *batch_of(0)).compile()
work = [program.cost_analysis()["flops"] for program in (compiled("mine"), one_device)]
print(f"operations on a device: {work[0] / work[1]:.0%} of those on one device alone")
assert [each.kind for each in found] == ["all-gather"]
assert found[0].shapes == ("f32[64,128]",) and bytes_sent(found) > bytes_sent(tensor)
assert 0.65 < work[0] / work[1] < 0.75
work = compiled("tensor parallel").cost_analysis()["flops"] / work[1]
assert 0.2 < work < 0.3

# %% [markdown]
# Each device has the rows of `W1` for a quarter of the pixels, so it could compute its part of a sum for the hidden
# layer, and an all-reduce could add the parts up. The compiler doesn't. It gathers `W1`, and then every device computes
# the **whole forward pass**. A device has 70 % of all operations to do, instead of a quarter. Which way a layer is cut
# has to fit the layer after it. Lesson 10 is about that.
#
# ## What goes wrong
#
# ### A mesh that does not divide
#
# That one is honest: an error, which names both numbers. (Our collectives cut ten numbers into 3, 3, 2 and 2. JAX does
# not: all devices run the same program, for one shape.)

# %%
try:
    put(first["b2"], P("ranks"))
except ValueError as error:
    print(error)
    assert "partitioned 4 times" in str(error) and "10" in str(error)

try:
    shard_shape((10,), four.shape, ["ranks"])  # the same check, in our words
except ValueError as error:
    print(error)
    assert "4 devices" in str(error)

# %% [markdown]
# ### Compiling again and again
#
# JAX runs your Python code only to find out what to compile: it **traces** it. A later call with arrays of the same
# shapes, in the same places, uses the compiled program. So a counter in the function counts how often it is traced. An
# epoch of 1,536 images in batches of 100 has 16 steps.

# %%
guess = predict(
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


thrown_away = times_traced(careless, an_epoch[:5])
print(f"jit of a new function in each step, 5 steps: traced {thrown_away} times")
print(guess.compare(kept))

# %% tags=["folded"]
# Checks of the numbers above
assert kept == 2 and thrown_away == 5
assert len(an_epoch) == 16 and len(all_images) % 100 == 36

# %% [markdown]
# Twice: for 100 images, and for the 36 that are left. Leave the rest out, or fill it up, if compiling takes minutes.
# The other loop makes a new function in every step. JAX knows programs by their function, so it compiles in every
# step. Nothing is wrong but the time.
#
# Shapes are not everything. Here are four steps over four devices, with batches of one shape:

# %%
specs, of_batch = CUTS["data parallel"]
stay = {name: NamedSharding(four, spec) for name, spec in specs.items()}
whole = NamedSharding(four, P())
placing = jax.jit(counting_step, out_shardings=(stay, whole))
params, traces = first, []
for number in range(4):
    before = traced
    images, labels = (put(array, of_batch) for array in batch_of(number))
    params, _ = placing(params, images, labels)
    traces.append(traced - before)
print("traced in each step:", traces)
assert traces == [1, 1, 0, 0]

# %% [markdown]
# In the first step the parameters come from numpy. In the second one they lie on four devices. That is another program,
# so it is traced and compiled once more, and from then on nothing is. `device_put` before the first step saves that.
#
# ### A step that gathers the batch
#
# Somebody shuffles the images. Inside the step, so that it is fast.


# %%
def shuffling_step(
    params: Params, images: Any, labels: Any, order: Any
) -> tuple[Params, jax.Array]:
    return step(params, images[order], labels[order])


order = np.random.default_rng(0).permutation(BATCH)

# %%
guess = predict(
    "Cut over 4 devices, shuffled in the step. For how many images does each device compute?",
    unit="images",
)

# %%
shuffled = jax.jit(shuffling_step).lower(*placed("data parallel"), order).compile()
new, _ = shuffled(*placed("data parallel"), order)
expected, _ = steps["data parallel"](*placed("data parallel"))
for each in collectives(shuffled):
    print(each.kind, *each.shapes)
work = {
    name: program.cost_analysis()["flops"]
    for name, program in (
        ("shuffled", shuffled),
        ("data parallel", steps["data parallel"]),
        ("one device", jax.jit(step).lower(first, *batch_of(0)).compile()),
    )
}
print({name: f"{flops / 1e6:.1f} million operations" for name, flops in work.items()})
print("largest difference:", furthest(new, expected))
print(guess.compare(BATCH * round(work["shuffled"] / work["one device"])))

# %% tags=["folded"]
# Checks of the numbers above
assert collectives(shuffled)[0].shapes == (f"f32[{BATCH},64]",)
assert all(each.kind == "all-reduce" for each in collectives(shuffled))
assert max(each.nbytes for each in collectives(shuffled)) == BATCH * 64 * 4 > SIZE
assert 0.99 < work["shuffled"] / work["one device"] < 1.01
assert 3.9 < work["shuffled"] / work["data parallel"] < 4.1
assert furthest(new, expected) < 1e-6

# %% [markdown]
# The values are correct. But now an all-reduce puts the whole batch together on every device, each computes the whole
# gradient, and the all-reduce of the gradients is gone: there is nothing left to combine. Four devices do what one
# could do, and talk more than before.
#
# There is a mode in which JAX refuses to guess. A mesh from `jax.make_mesh` has *explicit* axes: the sharding is part
# of an array's type, and an operation that can't tell the sharding of its result is an error at that line.

# %%
explicit = jax.make_mesh((4,), ("ranks",), devices=jax.devices()[:4])
specs, of_batch = CUTS["data parallel"]
params = {name: put(first[name], spec, explicit) for name, spec in specs.items()}
images, labels = (put(array, of_batch, explicit) for array in batch_of(0))
with jax.set_mesh(explicit):
    print("the type of the images:", jax.typeof(images))
    _, loss = jax.jit(step)(params, images, labels)
    print(f"the step: loss {loss:.3f}")
    try:
        jax.jit(shuffling_step)(params, images, labels, order)
        refused = ""
    except Exception as error:
        refused = f"{type(error).__name__}: {error}"
    print("shuffled:", refused[:240], "…")

# %% tags=["folded"]
# Checks of the cell above
assert refused.startswith("ShardingTypeError") and "256@ranks" in refused
assert str(jax.typeof(images)) == "float32[256@ranks,64]"

# %% [markdown]
# ### A gradient that was summed before you summed it
#
# In `shard_map` you write what one device does. You know the recipe from lesson 05: compute the gradient of your own
# images, then average the gradients over the devices.


# %%
def recipe(params: Params, images: Any, labels: Any) -> Params:
    gradient = jax.grad(loss_of)(params, images, labels)
    return lax.pmean(gradient, "ranks")


# %%
guess = predict(
    "The recipe on 4 devices. What comes out, compared with the gradient of the whole batch?",
    choices=["a quarter of it", "the same", "4 times as much", "16 times as much"],
)


# %%
def with_devices(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Each device has all parameters and its own images."""
    in_specs = (P(), P("ranks"), P("ranks"))
    return jax.jit(
        shard_map(function, mesh=four, in_specs=in_specs, out_specs=P(), **options)
    )


def times_too_large(gradient: Params) -> float:
    """How many times as long as that of the whole batch."""
    true = jax.grad(loss_of)(first, *batch_of(0))
    factors = {
        name: float(
            jnp.vdot(gradient[name], true[name]) / jnp.vdot(true[name], true[name])
        )
        for name in true
    }
    assert max(factors.values()) - min(factors.values()) < 1e-3
    return factors["W1"]


given = first, *batch_of(0)
factor = times_too_large(with_devices(recipe)(*given))
print(f"{factor:.2f} times the gradient of the whole batch")
for each in collectives(with_devices(recipe).lower(*given).compile()):
    print("   ", each.kind, *each.shapes)
print(guess.compare("4 times as much" if abs(factor - 4) < 1e-3 else str(factor)))

# %% tags=["folded"]
# Checks of the numbers above
assert abs(factor - 4) < 1e-3
twice = collectives(with_devices(recipe).lower(*given).compile())
assert {each.kind for each in twice} == {"all-reduce"}
assert sum(each.nbytes for each in twice) == 2 * SIZE
without = with_devices(jax.grad(loss_of))
assert abs(times_too_large(without(*given)) - 4) < 1e-3
once = collectives(without.lower(*given).compile())
assert sum(each.nbytes for each in once) == SIZE

# %% [markdown]
# Four times, and no error: it looks like a learning rate that is too high. Each gradient is in two all-reduces. Leave
# `pmean` out, and one of them is gone, but it is still four times. So **the gradient was already summed.** The
# parameters are the same on every device, and JAX knows that: they came in with `P()`. Each device used its copy, so
# the gradient of *the* parameters is the sum of what all devices contribute. The backward pass of "everybody has a
# copy" is an all-reduce. JAX puts it in, and your average is one of four equal numbers.
#
# Torch has no such knowledge: there a gradient is what one process has computed. In JAX you say of what you want the
# gradient. Of the mean over all devices: then take it of the mean.


# %%
def mean_first(params: Params, images: Any, labels: Any) -> Params:
    def mean_loss(params: Params) -> jax.Array:
        return lax.pmean(loss_of(params, images, labels), "ranks")

    return jax.grad(mean_loss)(params)


print(f"the mean first: {times_too_large(with_devices(mean_first)(*given)):.2f}")
by_device = (first, *(part.reshape(4, 64, *part.shape[1:]) for part in batch_of(0)))
elsewhere = {
    "vmap": jax.vmap(recipe, in_axes=(None, 0, 0), axis_name="ranks"),
    "pmap": jax.pmap(recipe, in_axes=(None, 0, 0), axis_name="ranks"),
}
factors = {}
for name, function in elsewhere.items():
    gradient = {key: rows[0] for key, rows in function(*by_device).items()}
    factors[name] = times_too_large(gradient)
factors["shard_map, check_vma=False"] = times_too_large(
    with_devices(recipe, check_vma=False)(*given)
)
for name, factor in factors.items():
    print(f"the recipe of lesson 05 under {name}: {factor:.2f}")

# %% tags=["folded"]
# Checks of the numbers above
assert abs(times_too_large(with_devices(mean_first)(*given)) - 1) < 1e-3
assert len(factors) == 3 and all(abs(each - 1) < 1e-3 for each in factors.values())
found = collectives(with_devices(mean_first).lower(*given).compile())
assert counted(found) == {"all-reduce": 1}

# %% [markdown]
# `vmap` and `pmap` don't have that knowledge, and `check_vma=False` switches it off. Then the recipe of lesson 05 is
# right again. **The same two lines are right in one place and wrong in the other.** So much for "the same function in
# three places": it holds for values, and for gradients only if you know what is shared. Compare a new step with one
# device before you trust it.
#
# **Try it.** Replace `pmean` by `psum`. Which factor do you expect?


# %%
def mine(params: Params, images: Any, labels: Any) -> Params:
    def summed_loss(params: Params) -> jax.Array:
        return lax.pmean(loss_of(params, images, labels), "ranks")  # psum?

    return jax.grad(summed_loss)(params)


print(f"{times_too_large(with_devices(mine)(*given)):.2f}")


# %% tags=["folded"]
# One way to do it
def summed(params: Params, images: Any, labels: Any) -> Params:
    def summed_loss(params: Params) -> jax.Array:
        return lax.psum(loss_of(params, images, labels), "ranks")

    return jax.grad(summed_loss)(params)


print(f"{times_too_large(with_devices(summed)(*given)):.2f}")
assert abs(times_too_large(with_devices(summed)(*given)) - 4) < 1e-3

# %% [markdown]
# ## In real frameworks
#
# JAX is one. Here is its all-reduce next to torch's and ours, on the same numbers. Torch and our library run on four
# processes. JAX stays in this one: a process that uses JAX has threads, and must not be forked.

# %%
import torch.distributed as dist

from distlib.worlds.real.process_group import torch_distributed


def ours_and_torchs(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
    ours, theirs = torch.tensor(numbers[comm.rank]), torch.tensor(numbers[comm.rank])
    all_reduce(comm, ours)
    with torch_distributed(comm):
        dist.all_reduce(theirs)
    return ours, theirs


def ours_gathered(comm: Communicator) -> int:
    ring_all_gather(comm, torch.zeros((SIZE - 40) // 4))
    return 0


with World(4) as world:
    pairs_of_sums = world.run(ours_and_torchs)
    world.run(ours_gathered)
    gathered = world.trace.bytes_sent
in_jax_sums = np.asarray(ways["shard_map"](numbers))
for rank, (ours_sum, theirs) in enumerate(pairs_of_sums):
    assert np.allclose(in_jax_sums[rank], ours_sum.numpy(), rtol=1e-5, atol=1e-5)
    assert np.allclose(in_jax_sums[rank], theirs.numpy(), rtol=1e-5, atol=1e-5)
print("psum, dist.all_reduce and all_reduce agree.")
in_hand = sum(each.sent for each in hand if each.kind == "all-gather")
print(f"all-gathers of the fully sharded step: {in_hand:,.0f} bytes, ours: {gathered}")
assert gathered == [in_hand] * 4

# %% [markdown]
# ### Several processes
#
# On several machines every process drives its own devices. Each calls `jax.distributed.initialize` with the address of
# the first one, the number of processes, and its own number. From then on `jax.devices()` are the devices of *all*
# processes, and each must run the same program. An array may be larger than what a process can see:
# `addressable_shards` are its own pieces, hence the name.
#
# Here are two processes with two devices each, on this machine. In each step they sum up what the four devices have.
# After step 3 we kill process 1.


# %%
def member(address: str, number: int) -> None:
    import time

    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(address, 2, number, heartbeat_timeout_seconds=4)
    mesh = Mesh(np.array(jax.devices()), ("ranks",))
    print(f"{len(jax.devices())} devices, {len(jax.local_devices())} of them mine")

    def my_part(index: tuple[slice, ...]) -> np.ndarray:
        return np.array([1.0, 10, 100, 1000], np.float32)[index]

    spec = NamedSharding(mesh, P("ranks"))
    array = jax.make_array_from_callback((4,), spec, my_part)
    print("I have", [float(each.data[0]) for each in array.addressable_shards])
    total = jax.jit(
        shard_map(
            lambda mine: lax.psum(mine, "ranks"),
            mesh=mesh,
            in_specs=P("ranks"),
            out_specs=P(),
        )
    )
    for step in range(1000):
        result = float(total(array).addressable_shards[0].data[0])
        print(f"step {step}: {result:.0f}")
        time.sleep(0.2)


# %%
guess = predict(
    "Process 1 is killed. What becomes of process 0?",
    choices=["it goes on alone", "an exception", "it waits forever", "it is aborted"],
)


# %%
def show(name: str, line: str) -> None:
    """What the processes print, without the stack of C++ that comes with it."""
    if line.startswith(("step", "I have", "4 devices", "(killed")):
        print(f"{name} │ {line}")
    elif "Terminating process" in line:
        print(f"{name} │ {line[line.index('Terminating') :][:130]} …")


(address,) = addresses(1)
outcomes = run_processes(
    {f"process {n}": Process(member, address, n) for n in range(2)},
    seconds=60,
    kill={"process 1": "step 3"},
    on_output=show,
)
for name, outcome in outcomes.items():
    print(f"{name}: ended by signal {-outcome.exit_status}")
print(guess.compare("it is aborted"))

# %% tags=["folded"]
# Checks of the cell above, and of the sentences below
import inspect
import signal

statuses = [outcome.exit_status for outcome in outcomes.values()]
assert statuses == [-signal.SIGABRT, -signal.SIGKILL]
for outcome, has in zip(outcomes.values(), ([1, 10], [100, 1000]), strict=True):
    assert "4 devices, 2 of them mine" in outcome.lines
    assert f"I have {[float(number) for number in has]}" in outcome.lines
    assert "step 3: 1111" in outcome.lines
options = inspect.signature(jax.distributed.initialize).parameters
assert options["heartbeat_timeout_seconds"].default == 100

# %% [markdown]
# Process 0 hangs in its next sum until the heartbeats of process 1 have been missing for 4 seconds. (By default it is
# 100.) Then JAX aborts it, with signal 6. There is no exception that your program could catch. So a job like this is
# restarted as a whole, from a checkpoint. In our `World` the same death is a `PeerLost` error that names the rank, and
# the parameter server of lesson 07 goes on without it.
#
# What you know from here, by JAX's names:
#
# | in JAX | here | lesson |
# |---|---|---|
# | `vmap` with `axis_name` | `SimulatedWorld`: the same function, one place | [00](00_start_here.ipynb) |
# | `shard_map`, `pmap` | `world.run`: what one rank does | [00](00_start_here.ipynb) |
# | `lax.axis_index`, `lax.axis_size` | `comm.rank`, `comm.world_size` | [00](00_start_here.ipynb) |
# | `lax.ppermute` | `comm.exchange`, on all ranks at once | [01](01_messages.ipynb) |
# | `lax.psum`, `lax.pmean` | `all_reduce` | [02](02_all_reduce.ipynb) |
# | `lax.psum_scatter`, `lax.all_gather` | `reduce_scatter`, `all_gather` | [02](02_all_reduce.ipynb) |
# | `Mesh` with several axes | `comm.split`, a grid of ranks | [03](03_trees_and_grids.ipynb) |
# | images `P("ranks")`, parameters `P()` | data parallel | [05](05_ddp.ipynb) |
# | tensors put into one all-reduce | buckets | [05](05_ddp.ipynb) |
# | parameters cut along what is multiplied | tensor parallel | 10 |
# | parameters cut, gathered when needed | ZeRO, FSDP | 11 |
# | `jax.distributed.initialize` | rendezvous | 16 |
#
# Two things you don't find there. An asynchronous parameter server has no place in one compiled program. And gossip
# can be written with `ppermute`, but you write it yourself.
#
# ## In short
#
# - One process, one program for all devices. Write it for one rank (`shard_map`), or for whole arrays (`jit`, and say
#   where they lie).
# - All that a compiled function communicates is in its program. Count it, with loops. (What `device_put` moves before
#   it is not.)
# - The compiler is free in how it moves data. It may do more than you think. Values don't show that.
# - The backward pass of a copy is an all-reduce, that of an all-gather a reduce-scatter.
# - `shard_map` sums the gradient of what all devices share. Don't do it again.
#
# ## Now you
#
# In [the exercise](../exercises/14_jax/14_jax.ipynb) you write the ring, a step on a mesh, and the shardings of a model
# with more layers. The tests read the compiled programs.
#
# ## Further reading
#
# - JAX, [Distributed arrays and automatic
#   parallelization](https://docs.jax.dev/en/latest/notebooks/Distributed_arrays_and_automatic_parallelization.html).
#   `jit` with sharded arrays.
# - JAX, [Manual parallelism with
#   `shard_map`](https://docs.jax.dev/en/latest/notebooks/shard_map.html). Also on what differs between devices, and how
#   that is checked.
# - JAX, [Explicit sharding](https://docs.jax.dev/en/latest/notebooks/explicit-sharding.html). Shardings as types.
# - Y. Xu and others, [GSPMD: General and Scalable Parallelization for ML Computation
#   Graphs](https://arxiv.org/abs/2105.04663), 2021. How a compiler cuts a program for one device.
# - S. Rajbhandari and others, [ZeRO: Memory Optimizations Toward Training Trillion Parameter
#   Models](https://arxiv.org/abs/1910.02054), 2020. What is sharded, and what it costs.
# - J. Austin and others, [How to Scale Your Model](https://jax-ml.github.io/scaling-book/), 2025. Rooflines and
#   shardings for large models, in JAX.
