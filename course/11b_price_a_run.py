# %% [markdown]
# # Price a run
#
# You may rent 64 GPUs tonight. Will torch's `fully_shard` keep them busy with Llama 3 8B, or will they wait for each
# other? To find out on 64 GPUs is expensive. So you run the very program on your laptop, in a minute: its ranks are
# simulated, its tensors have shapes but no numbers, and its clock counts the seconds that the cluster would take.
#
# **This lesson is optional.** No later lesson needs it.
#
# After it you will be able to
#
# - run a program of torch's own, with a model that fits in no laptop, and read from it how long a step takes,
# - say what part of the communication is exposed, and see it in a picture of the step,
# - find how many tokens a GPU needs so that `fully_shard` hides its communication, on any network.
#
# **Time:** about 25 minutes. **You need:** [ZeRO and FSDP](11_zero.ipynb). No GPU.

# %% tags=["folded"]
# Imports
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    Trace,
    World,
    charge_computing,
    torch_distributed,
)
from distlib.draw import curves, predict, step_timeline
from distlib.training import Span, StepTimes

# %% [markdown]
# ## A model without memory
#
# torch has a device that is called `"meta"`. A tensor there has a shape, a dtype and a gradient, and no numbers. So a
# model of any size fits. Here is Llama 3 8B in plain torch; its layers are folded.

# %% tags=["folded"]
# The model: fewer heads for keys than for queries, then a gated MLP
WIDTH, HEADS, KEY_WIDTH, HIDDEN, VOCABULARY = 4096, 32, 1024, 14336, 128256


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class Layer(nn.Module):
    """One of 32. Its rotary embedding is left out: it takes no product of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.o = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.k, self.v = linear(WIDTH, KEY_WIDTH), linear(WIDTH, KEY_WIDTH)
        self.gate, self.up = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN)
        self.down = linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.before_attention(x))
        y = self.before_mlp(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        heads = [
            matrix(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for matrix in (self.q, self.k, self.v)
        ]
        attended = functional.scaled_dot_product_attention(
            *heads, is_causal=True, enable_gqa=True
        )
        return self.o(attended.transpose(1, 2).flatten(2))


class Llama(nn.Module):
    """Tokens to logits."""

    def __init__(self, layers: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(WIDTH), linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


# %%
with torch.device("meta"):
    llama = Llama()
parameters = sum(parameter.numel() for parameter in llama.parameters())
print(
    f"{parameters:,} parameters; training takes 16 bytes for each: {16 * parameters / 1e9:.0f} GB"
)
assert parameters == 8_030_261_248  # as published

# %% [markdown]
# Training this model takes 128 GB, and an H100 has 80. So we shard it.
#
# ## The program
#
# This is the program that you would run on the cluster. Two lines belong to this course: `torch_distributed(comm)`
# gives torch the simulated ranks. `charge_computing` lets each product of matrices take its time: a GPU here computes
# 350 · 10¹² operations per second, about a third of what an H100 promises, which is what training reaches.

# %%
MIXED = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
FLOPS = 350e12  # per second, of one GPU
SEQUENCE = 2048  # tokens


def train_one_step(comm: Communicator, layers: int, tokens: int) -> StepTimes:
    """A step of Llama 3 with so many layers, each a unit of fully_shard, and its times."""
    with (
        torch_distributed(comm) as dist,
        charge_computing(comm, flops_per_second=FLOPS),
    ):
        mesh = dist.device_mesh.init_device_mesh("meta", (comm.world_size,))
        with torch.device("meta"):
            model = Llama(layers)
            text = torch.zeros(tokens // SEQUENCE, SEQUENCE + 1, dtype=torch.int64)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=MIXED)
        fully_shard(model, mesh=mesh, mp_policy=MIXED)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        noted = note_computing(comm, model)
        start = comm.time()
        logits = model(text[:, :-1])
        functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()
        return StepTimes(start, comm.time(), noted)


# %% tags=["folded"]
# When the layers compute: noted by hooks, for the pictures
def note_computing(comm: Communicator, model: Llama) -> list[Span]:
    """A list that fills up while the model trains: spans of the layers and the output matrix."""
    spans: list[Span] = []

    def begins(layer: nn.Module, inputs: tuple) -> None:
        layer.began = comm.time()

    def ends(layer: nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        forward = Span("forward", "layer", layer.began, comm.time())
        spans.append(forward)

        def gradient_is_there(
            gradient: torch.Tensor,
        ) -> None:  # backward computes twice as long
            now = comm.time()
            spans.append(Span("backward", "layer", now - 2 * forward.seconds, now))

        inputs[0].register_hook(gradient_is_there)

    for layer in (*model.layers, model.head):
        layer.register_forward_pre_hook(begins)
        layer.register_forward_hook(ends)
    return spans


def with_collectives(step: StepTimes, trace: Trace) -> StepTimes:
    """The step with a span for each collective that rank 0 sent messages of."""
    spans: list[Span] = []
    for message in trace.filter(
        lambda message: message.src == 0 and message.end > step.start
    ):
        call, last = message.site.call, spans[-1] if spans else None
        if last and last.name == call and message.start - last.end < 1e-4:
            spans[-1] = Span("communication", call, last.start, message.end)
        else:
            spans.append(Span("communication", call, message.start, message.end))
    return StepTimes(step.start, step.end, [*step.spans, *spans])


# %% [markdown]
# The cluster has nodes of 8 GPUs. Inside a node, a program reaches 370 GB/s from each GPU. Between two nodes are eight
# network cards; through one of them it reaches 46 GB/s. For large messages NCCL makes a ring for each card. Our
# all-gather is one ring, so its link between nodes has the speed of all eight cards.

# %%
NVLINK, EIGHT_CARDS, ONE_CARD = (
    370e9,
    370e9,
    46e9,
)  # bytes per second that a program reaches


def world_of(gpus: int, between_nodes: float, record: bool = False) -> SimulatedWorld:
    inside, between = Link(3e-6, NVLINK), Link(10e-6, between_nodes)
    cluster = Cluster(max(1, gpus // 8), min(gpus, 8), intra=inside, inter=between)
    return SimulatedWorld(gpus, cluster, contexts="threads", record=record)


# %% [markdown]
# ## One node
#
# First the picture of a step on 8 GPUs. Four layers are enough for it.

# %%
world = world_of(8, EIGHT_CARDS, record=True)
step = world.run(train_one_step, 4, 16_384)[0]
step = with_collectives(step, world.trace)
step_timeline(
    {"8 GPUs": step},
    title="Four layers of Llama 3, rank 0, 16,384 tokens on each GPU",
    communication="collective",
)

# %% [markdown]
# Above, the GPU computes: the four layers forward, then the output matrix, which is wide, then the layers backward.
# Below are the collectives; those that follow one another at once are drawn as one. Layers are all-gathered, and
# gradients are reduce-scattered, while other layers compute. This communication is **hidden**.
#
# **Exposed** are the two ends. At the start the GPU waits for the embedding, the output matrix and the first layer. At
# the end the gradients of the first layer and of the embedding come last, and nothing is left to compute meanwhile.
# With four layers the ends are more than half of all communication. With thirty-two they are a small part.
#
# ## Thirty-two layers
#
# All layers are alike, so each adds the same time. Two layers and three layers tell what thirty-two cost.


# %%
def seconds(gpus: int, layers: int, tokens: int, between_nodes: float) -> float:
    """What a step takes, in virtual time."""
    step = world_of(gpus, between_nodes).run(train_one_step, layers, tokens)[0]
    return step.end - step.start


def price(gpus: int, tokens: int, between_nodes: float = EIGHT_CARDS) -> float:
    """What a step of all 32 layers takes, from two layers and three."""
    two, three = (seconds(gpus, layers, tokens, between_nodes) for layers in (2, 3))
    return two + 30 * (three - two)


def computing(tokens: int, layers: int = 32) -> float:
    """What the step would take if nothing had to be sent."""
    matrices = 2 * WIDTH * (WIDTH + KEY_WIDTH) + 3 * WIDTH * HIDDEN  # of a layer
    forward = 2 * tokens * (layers * matrices + VOCABULARY * WIDTH)
    attention = 4 * tokens * SEQUENCE * WIDTH * layers
    return 3 * (forward + attention) / FLOPS  # backward takes twice as long as forward


one_node = price(8, 16_384)
print(
    f"8 GPUs: a step takes {one_node:.3f} s, of which computing {computing(16_384):.3f} s"
)

# %% tags=["folded"]
# Checks of the extrapolation
two, three, eight = (seconds(8, layers, 16_384, EIGHT_CARDS) for layers in (2, 3, 8))
assert abs(two + 6 * (three - two) - eight) < 1e-9
assert (
    f"{one_node - computing(16_384):.3f}"
    == f"{two - computing(16_384, 2):.3f}"
    == "0.018"
)
assert f"{1 - computing(16_384) / one_node:.1%}" == "0.8%"
two, three, five = (seconds(16, layers, 2_048, ONE_CARD) for layers in (2, 3, 5))
assert abs(two + 3 * (three - two) - five) < 1e-9  # also where the network is the limit

# %% [markdown]
# 18 milliseconds are exposed, 0.8 % of the step.
#
# ## Sixty-four GPUs
#
# Now the cluster that you may rent: 8 nodes, and each GPU still has 16,384 tokens. Each layer is in 64 shards now, and
# every all-gather takes 63 hops.

# %%
guess_1 = predict(
    "On 64 GPUs instead of 8, with as many tokens on each: how much longer does a step take?",
    choices=[
        "less than 1 %",
        "5 to 15 %",
        "about twice as long",
        "about 8 times as long",
    ],
)

# %%
eight_nodes = price(64, 16_384)
longer = eight_nodes / one_node - 1
print(f"64 GPUs: a step takes {eight_nodes:.3f} s, {longer:.1%} longer")
print(guess_1.compare("less than 1 %"))
assert longer < 0.01

# %% [markdown]
# In a ring of $N$ GPUs each sends $(N-1)/N$ of the bytes: almost the same on 64 GPUs as on 8. They stay hidden, so
# that eight times the GPUs train eight times the tokens in the same time. Two things make it so: the eight cards of a
# node are as fast as NVLink, and each GPU keeps its number of tokens.
#
# How far is that from the truth? The authors of torchtitan trained this model with `fully_shard`. On 8 H100s each GPU
# trained 5,762 tokens per second, and on 128 of them 5,605: that is 2.7 % less. On 8 GPUs their step takes 2.84
# seconds, a quarter longer than ours. Their sequences are four times as long, and they compute a part of the
# activations twice, because so many tokens would not fit into memory.
#
# In our cluster all GPUs are equally fast in every layer, and nobody else uses the network. **So a simulated step is
# optimistic.**
#
# ## A cheaper cluster
#
# Another offer is cheaper. Its nodes have a single network card: 46 GB/s between two nodes instead of 370. When is
# communication hidden there?
#
# Look at a layer in the backward pass. It has $P$ parameters, and a GPU has $T$ tokens.
#
# - Computing takes $4 P T / F$ seconds: four operations for each parameter and token, at $F$ operations per second.
# - Communication takes $6 P / B$ seconds: two bytes per parameter are gathered in bfloat16, and four bytes per gradient
#   are reduce-scattered in float32, at $B$ bytes per second.
#
# Communication is hidden if computing takes longer, and $P$ cancels out: about $T \ge 1.5 \, F / B$. This is the
# **border**. Here $T$ counts the tokens of one forward and backward pass.

# %%
guess_2 = predict(
    "F is 350e12 and B is 46e9. With how many tokens on each GPU is it hidden?",
    choices=[
        "all of them",
        "from 4,096 on",
        "from 8,192 on",
        "only with 16,384",
        "none of them",
    ],
)

# %%
TOKENS = (2_048, 4_096, 8_192, 16_384)
cheap = {tokens: price(16, tokens, ONE_CARD) for tokens in TOKENS}
for tokens, needed in cheap.items():
    exposed = needed - computing(tokens)
    print(
        f"{tokens:6,} tokens: {needed:.2f} s, exposed {exposed:.2f} s, "
        f"{tokens / needed:5,.0f} tokens per second"
    )
print(guess_2.compare("only with 16,384"))

# %%
dear = {tokens: price(16, tokens) for tokens in (2_048, 16_384)}
curves(
    {
        "eight cards": [(tokens, tokens / needed) for tokens, needed in dear.items()],
        "one card": [(tokens, tokens / needed) for tokens, needed in cheap.items()],
    },
    along="tokens on each GPU in a step",
    values="tokens per second, each GPU",
    title="Few tokens leave a GPU waiting for a slow network",
)

# %% tags=["folded"]
# Checks of the border and of what is said below
borders = [round(1.5 * FLOPS / bandwidth) for bandwidth in (ONE_CARD, EIGHT_CARDS)]
assert borders == [11_413, 1_419]
ends = seconds(16, 2, 16_384, ONE_CARD) - computing(16_384, 2)
exposed = [needed - computing(tokens) for tokens, needed in cheap.items()]
assert abs(exposed[3] - ends) < 1e-9 and min(exposed[:3]) > ends + 0.1
rates = {tokens: tokens / needed for tokens, needed in cheap.items()}
assert (
    4.2 < rates[16_384] / rates[2_048] < 4.4
    and 1.01 < cheap[4_096] / cheap[2_048] < 1.03
)
assert f"{cheap[16_384] / dear[16_384] - 1:.0%}" == "6%"

# %% [markdown]
# With 2,048 tokens a GPU waits most of the step. With 4,096 the step takes hardly longer, because it lasts as long as
# its communication, and twice as many tokens are trained. With 16,384 tokens the cheap cluster is 6 % slower than the
# other: only the two ends are exposed, and they take 0.16 seconds.
#
# By the formula the border is about 11,400 tokens with one card, and about 1,400 with eight.
#
# ## In real frameworks
#
# The program above is torch's own. On a cluster about ten lines differ: `init_process_group("nccl")` instead of
# `torch_distributed`, `"cuda"` instead of `"meta"`, real data, and no `charge_computing`. But does torch send the same
# messages without numbers as with them? Here a small model runs forward and backward on two real processes, and by
# shapes alone.


# %%
def small_step(comm: Communicator, device: str) -> None:
    with torch_distributed(comm) as dist:
        mesh = dist.device_mesh.init_device_mesh(device, (comm.world_size,))
        with torch.device(device):
            model, inputs = (
                nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)),
                torch.ones(4, 8),
            )
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        model(inputs).square().mean().backward()


with World(2) as real:
    real.run(small_step, "cpu")
simulated = SimulatedWorld(2, contexts="threads", record=True)
simulated.run(small_step, "meta")
for name, world in {"with numbers": real, "shapes alone": simulated}.items():
    for call, volume in world.trace.by_collective(rank=0).items():
        print(f"{name}: {call}, {volume.messages} messages, {volume.nbytes} bytes")
assert real.trace.by_collective(0) == simulated.trace.by_collective(0)

# %% [markdown]
# Yes: as many messages of each kind, and as many bytes.
#
# ## In short
#
# - A model on the device `"meta"` has shapes and no numbers, so that it fits in a laptop.
# - `fully_shard` hides all communication but the two ends, if a GPU has enough tokens.
# - A GPU needs about $1.5 \, F / B$ tokens, for a dense model of any size.
# - On a fast network, eight times the GPUs train eight times the tokens per second.
# - A simulated step leaves out disturbances, kernel launches and memory.
#
# <details><summary>Where these sentences stop being true</summary>
#
# | sentence | stops being true |
# |---|---|
# | about 1.5 F/B | F/B if `reduce_dtype` is bfloat16, with `reshard_after_forward=False`, or if all is recomputed. |
# | | Fewer with long sequences: attention computes more and sends nothing. |
# | of any size | With experts: multiply by all parameters of a layer over those that a token uses. |
# | eight times the tokens | With a batch of fixed size each GPU has fewer tokens. Thousands of GPUs: latency counts. |
# | if the network is fast | Sharded inside a node and replicated between nodes, a model sends less between nodes. |
# | leaves out | For the F and the B that you have chosen: faster kernels reach a larger F. |
#
# </details>
#
# What has no price here: operations without a product of matrices, the optimizer's step, the launch of kernels, and
# memory. `charge_computing` says how the products are counted.
#
# ## Now you
#
# Change the program, and run it again. Give `reduce_dtype` bfloat16, or `reshard_after_forward=False` for each layer:
# where is the border now? The last part of
# [exercise 11](../exercises/11_zero/11_zero.ipynb) asks for a program with `fully_shard`, with numbers.
#
# ## Further reading
#
# - torchtitan, [Llama 3.1 on
#   H100s](https://github.com/pytorch/torchtitan/blob/main/benchmarks/llama3_h100_202412_torchtitan.md), end
#   of 2024. Tables 1 and 3 have the two figures above. Each GPU has two sequences there, and recomputes activations.
# - J. Qin and others, [Phantora: Maximizing Code Reuse in Simulation-based Machine Learning System Performance
#   Estimation](https://arxiv.org/abs/2505.01616), 2025. Also prices programs as they are, with one GPU.
# - Y. Zhao and others, [PyTorch FSDP: Experiences on Scaling Fully Sharded Data
#   Parallel](https://arxiv.org/abs/2304.11277), 2023. Why a layer is gathered before it is needed.
# - torch, [The meta device](https://docs.pytorch.org/docs/stable/meta.html).
