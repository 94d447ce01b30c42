# %% [markdown]
# # Exercise 05: DDP
#
# You average the gradients of all ranks, first after the backward pass, then in buckets while it still runs. In the
# last part you train with torch's own DDP.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [DDP](../../course/05_ddp.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function or class | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `average_gradients` | 2 | 2 |
# | 2 | `OverlappedDDP` | 5 | 6 |
# | 3 | `train_with_ddp` | 2 | 3 |
#
# That makes 20 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# `comm` is how this rank talks to the others, as in the exercises before. Here you need `comm.rank`, `comm.world_size`,
# and two functions of the library, by these names:
#
# | | |
# |---|---|
# | `all_reduce(comm, tensor)` | afterwards every rank's `tensor` holds the sum over all ranks, in place |
# | `work = all_reduce(comm, tensor, async_op=True)` | the same, but it returns at once; later `work.wait()` |
# | `broadcast(comm, tensor)` | afterwards every rank's `tensor` holds rank 0's values, in place |
#
# All ranks must call both in the same order. Between an asynchronous `all_reduce` and its `wait`, leave the tensor
# alone. Call `wait()` on every handle.
#
# **Tests look at values and messages.** They compare with training in a single process, and count messages and bytes.
# In part 2 they look at the moment when each message leaves, in virtual time: the gradients of a layer take 10
# milliseconds, on every machine.

# %% readonly="setup"
import contextlib
from collections.abc import Iterator

import torch
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from distlib import (
    Cluster,
    Communicator,
    Link,
    SimulatedWorld,
    World,
    all_reduce,
    broadcast,
    torch_distributed,
)
from distlib.training import assign_buckets  # you write it in exercise 05b

two = World(2)  # two ranks to try things on

# %% [markdown]
# ## 1. The plain way: `average_gradients`
#
# Backward is over. On every rank each parameter has a gradient, `parameter.grad`, of that rank's own samples. Now every
# gradient must become the average over all ranks.
#
# An all-reduce for each parameter would do. But each all-reduce pays for the latency of its messages, and most
# parameters are small. So put all gradients into **one flat buffer**, one after the other. All-reduce that, divide it
# by the number of ranks, and put each piece back where it came from.
#
# With 2 ranks, and a model with a weight of shape [2, 2] and a bias of shape [2]:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | gradient of the weight | `[[1, 2], [3, 4]]` | `[[3, 2], [1, 0]]` |
# | gradient of the bias | `[5, 6]` | `None` |
# | flat buffer | `[1, 2, 3, 4, 5, 6]` | `[3, 2, 1, 0, 0, 0]` |
# | after the all-reduce | `[4, 4, 4, 4, 5, 6]` | `[4, 4, 4, 4, 5, 6]` |
# | divided by 2 | `[2, 2, 2, 2, 2.5, 3]` | `[2, 2, 2, 2, 2.5, 3]` |
#
# Rank 1 has no gradient for the bias: its loss did not depend on it. **A missing gradient counts as zeros**, and
# afterwards rank 1 has the average, too. A parameter that is frozen, `requires_grad=False`, is left out on all ranks,
# and gets no gradient.
#
# `torch.cat` puts flat tensors together. `flat.split([4, 2])` takes them apart again.


# %% solution="average_gradients"
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    """Make the gradient of every parameter the average over all ranks, with one all-reduce of
    one flat buffer.

    A parameter whose gradient is None counts as zeros on this rank; afterwards it has the
    average, too: zeros, if no rank has a gradient. Parameters that need no gradient
    (requires_grad is False) are left out. The parameters themselves do not change.

    Args:
        comm: the communicator of this rank.
        module: the same model on every rank, each with its own gradients; all of one dtype.
            parameter.grad is replaced or overwritten, with a tensor of the parameter's shape
            and dtype.

    Cost for N ranks and S bytes of gradients:
        one all-reduce: every rank sends 2(N - 1) messages, about 2(N - 1) / N * S bytes. With
        one rank: no message.
    """
    ### BEGIN SOLUTION
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    all_reduce(comm, flat)
    flat /= comm.world_size
    pieces = flat.split([parameter.numel() for parameter in trained])
    for parameter, piece in zip(trained, pieces, strict=True):
        parameter.grad = piece.reshape(parameter.shape)
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. A cell like this one gives no marks. Change it as you like.


# %%
def try_average(comm: Communicator) -> list[list[float]]:
    model = torch.nn.Linear(2, 2)
    weight = [[[1.0, 2.0], [3.0, 4.0]], [[3.0, 2.0], [1.0, 0.0]]][comm.rank]
    model.weight.grad = torch.tensor(weight)
    model.bias.grad = torch.tensor([5.0, 6.0]) if comm.rank == 0 else None
    average_gradients(comm, model)
    return [model.weight.grad.flatten().tolist(), model.bias.grad.tolist()]


for rank, (weight, bias) in enumerate(two.run(try_average, timeout=5)):
    print(f"rank {rank}: weight {weight}, bias {bias}")
print(two.trace.summary())

# %% [markdown]
# **Visible test: 2 points.** 1, 2 and 3 ranks. In the second model rank 1 has no gradient for a parameter.

# %% test="average_gradients_visible" points=2
from distlib.exercises import Gradients, check_average_gradients

report = check_average_gradients(
    average_gradients,
    world_sizes=(1, 2, 3),
    models=[Gradients([(2, 3), (3,)]), Gradients([(2, 3), (3,), (3, 1)], missing=[(1, 1)])],
)
assert report[1].trace.messages_sent == [2, 2]  # one all-reduce on 2 ranks
# 9 float32 to the other rank, in halves there and back
assert sum(report[1].trace.bytes_sent) == 2 * 9 * 4
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, other dtypes, frozen parameters, gradients missing on several ranks.

# %% test="average_gradients_hidden" points=2
# The hidden tests of average_gradients stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: more ranks, other dtypes, frozen parameters, missing gradients, and a rank that has none.
import torch

from distlib.exercises import Gradients, check_average_gradients

report = check_average_gradients(
    average_gradients,
    world_sizes=(1, 2, 3, 4, 5),
    models=[
        Gradients([(3, 5), (), (7,), (2, 2, 2)], dtype=torch.float64),
        Gradients([(3, 5), (3,), (1, 3), (1,)], frozen=[0, 1]),
        Gradients(
            [(4, 2), (4,), (2, 4), (2,)], missing=[(0, 3), (1, 3), (1, 0), (3, 2)], frozen=[1]
        ),
        Gradients([(4,), (5,)], missing=[(rank, 0) for rank in range(5)]),
        Gradients([(2, 3), (3,)], missing=[(1, 0), (1, 1)]),
        Gradients([(2, 3), (3,)], missing=[(1, 1)], dtype=torch.bfloat16),
    ],
    seed=51,
)
assert len(report) == 30
assert report[3].trace.messages_sent == [6] * 4
assert sum(report[3].trace.bytes_sent) == 6 * (15 + 1 + 7 + 8) * 8
assert sum(report[9].trace.bytes_sent) == 8 * (3 + 1) * 4
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Gradients that leave early: `OverlappedDDP`
#
# Now put it together: a class around a model. It is used like this.
#
# ```python
# parallel = OverlappedDDP(comm, model)
# for images, labels in batches:
#     loss = cross_entropy(parallel(images), labels)
#     loss.backward()              # all-reduces begin in here
#     parallel.finish()            # waits for them
#     optimizer.step()
# ```
#
# **Equal at the start.** Every rank comes with a model of its own, with random weights. The constructor copies rank 0's
# parameters and buffers to all. (Buffers are tensors that are not trained, such as the running mean of a batch norm:
# `module.buffers()`.) You may write to `tensor.detach()` even where writing to the tensor itself raises an error.
#
# **Buckets.** One buffer of all gradients is complete only when the backward pass is over, and everybody waits for it.
# So there are several, as in the lesson. `assign_buckets` is given: with parameters of 60, 10, 30, 25 and 15 bytes,
# `assign_buckets([60, 10, 30, 25, 15], bucket_bytes=40, first_bucket_bytes=20)` returns `[[4, 3], [2, 1], [0]]`. Bucket
# 0 has the parameters 4 and 3, because the last layers have their gradients first.
#
# **Hooks.** `parameter.register_post_accumulate_grad_hook(function)` makes torch call `function(parameter)` during
# backward, as soon as `parameter.grad` is complete. In it, note that the parameter is ready. When all parameters of a
# bucket are ready, copy their gradients into a flat buffer and begin its all-reduce with `async_op=True`. Don't wait.
# (A weight that two layers share is one parameter: it stands in `module.parameters()` once; its hook is called once.)
#
# **The same order everywhere.** An all-reduce works only if all ranks begin the same one. So bucket 1 never begins
# before bucket 0. If bucket 1 is complete first, it waits until bucket 0 has begun, and begins right after it.
#
# **`finish`** is called after backward. It begins the all-reduces that have not begun, waits for all of them, divides,
# and writes the averages into `parameter.grad`. A missing gradient counts as zeros, as in part 1. The hooks never
# complete its bucket, so its all-reduce begins here. Afterwards everything is ready for the next training step.
#
# **`no_sync`** is for several small batches in one training step:
#
# ```python
# with parallel.no_sync():
#     loss(parallel(first)).backward()      # nothing is sent; gradients stay in parameter.grad
# loss(parallel(second)).backward()         # torch adds the new gradients to them, and these sums travel
# parallel.finish()
# ```
#
# **Buffers** drift apart, because every rank updates them from its own batch. So before every forward pass in training
# mode (`self.training`), but not in `no_sync`, rank 0's buffers are copied to all ranks. In evaluation, after
# `parallel.eval()`, nothing is sent.
#
# **The schedule** on 2 ranks, with a model of three layers and one bucket for each:
#
# | time | backward | communication |
# |---|---|---|
# | 0 to 10 ms | layer 2 | |
# | 10 to 20 ms | layer 1 | bucket 0, 10 to 18 ms |
# | 20 to 30 ms | layer 0 | bucket 1, 20 to 28 ms |
# | from 30 ms | `finish` | bucket 2, 30 to 38 ms |
#
# The communication takes 24 ms, but the ranks wait for only 8 of them.


# %% solution="OverlappedDDP"
class OverlappedDDP(torch.nn.Module):
    """A model whose gradients are averaged over all ranks, in buckets, while the backward pass
    still runs.

    Args:
        comm: the communicator of this rank.
        module: the same model on every rank, with any weights. They become rank 0's, in place,
            as do its buffers. All parameters have one dtype. It works on this module itself,
            not on a copy.
        bucket_bytes, first_bucket_bytes: for assign_buckets, with the sizes (parameter.nbytes)
            of the parameters that need a gradient.

    What is sent, with N ranks:
        constructor: a broadcast of each parameter and each buffer.
        forward: a broadcast of each buffer, in training mode and outside of no_sync.
        backward and finish: an all-reduce for each bucket, of its gradients and nothing else:
        each rank sends 2(N - 1) messages for it.
        Bucket 0 begins first. A bucket begins as soon as it is complete and those before it
        have begun.
    """

    def __init__(
        self,
        comm: Communicator,
        module: torch.nn.Module,
        bucket_bytes: int = 25 * 2**20,
        first_bucket_bytes: int = 2**20,
    ) -> None:
        super().__init__()
        self.comm, self.module = comm, module
        ### BEGIN SOLUTION
        for tensor in [*module.parameters(), *module.buffers()]:
            broadcast(comm, tensor.detach())
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        assigned = assign_buckets([p.nbytes for p in trained], bucket_bytes, first_bucket_bytes)
        self.buckets = [[trained[index] for index in indices] for indices in assigned]
        # whose gradients have not come yet
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun = []  # flat buffer and handle of each bucket that has begun
        self.synchronizes = True
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(self.on_gradient)
        ### END SOLUTION

    def forward(self, *inputs: object) -> object:
        """Copy the buffers from rank 0 (see above), then return what the module makes of all
        these inputs."""
        ### BEGIN SOLUTION
        if self.training and self.synchronizes:
            for buffer in self.module.buffers():
                broadcast(self.comm, buffer)
        return self.module(*inputs)
        ### END SOLUTION

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within `with parallel.no_sync():` nothing is sent, and gradients add up on each rank.
        It needs no finish."""
        ### BEGIN SOLUTION
        self.synchronizes = False
        try:
            yield
        finally:
            self.synchronizes = True
        ### END SOLUTION

    def finish(self) -> None:
        """Call this after backward. Afterwards the gradients are the averages over all
        ranks."""
        ### BEGIN SOLUTION
        while len(self.begun) < len(self.buckets):
            self.begin_next()
        for bucket, (flat, work) in zip(self.buckets, self.begun, strict=True):
            work.wait()
            flat /= self.comm.world_size
            for parameter, piece in zip(
                bucket, flat.split([p.numel() for p in bucket]), strict=True
            ):
                parameter.grad = piece.reshape(parameter.shape)
        self.missing = [set(bucket) for bucket in self.buckets]
        self.begun = []

    def on_gradient(self, parameter: torch.nn.Parameter) -> None:
        """torch calls it when the gradient of a parameter is complete."""
        if not self.synchronizes:
            return
        for missing in self.missing:
            missing.discard(parameter)
        while len(self.begun) < len(self.buckets) and not self.missing[len(self.begun)]:
            self.begin_next()

    def begin_next(self) -> None:
        """Begin the all-reduce of the first bucket that has not begun."""
        bucket = self.buckets[len(self.begun)]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        self.begun.append((flat, all_reduce(self.comm, flat, async_op=True)))
        ### END SOLUTION


# %% [markdown]
# **Try it** and watch it, in virtual time. `StepClock` lets each layer take time and notes when what happens. We have a
# model of four layers and a network on which a bucket takes a little less time than a layer.

# %%
from distlib.draw import step_timeline
from distlib.training import Span, StepClock, StepTimes

simulated = SimulatedWorld(
    2, Cluster.flat(2, Link(latency=1e-4, bandwidth=2e6)), contexts="threads"
)


def watched_step(comm: Communicator) -> StepTimes:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    clock = StepClock(comm, model, seconds={str(layer): 0.005 for layer in range(4)})
    parallel = OverlappedDDP(comm, model, bucket_bytes=16_000, first_bucket_bytes=16_000)
    with clock.step():
        parallel(torch.ones(2, 64)).sum().backward()
        parallel.finish()
    return clock.steps[-1]


step = simulated.run(watched_step, timeout=20)[0]
sent = [
    message for message in simulated.trace if message.src == 0 and message.start > step.start
]
# on 2 ranks, an all-reduce is 2 messages of each
halves = zip(sent[::2], sent[1::2], strict=True)
under_way = [
    Span("communication", f"bucket {k}", first.start, second.end)
    for k, (first, second) in enumerate(halves)
]
step = StepTimes(step.start, step.end, [*step.spans, *under_way])
print(
    f"gradients are under way for {step.communicating * 1e3:.1f} ms, "
    f"{step.hidden * 1e3:.1f} of them hidden"
)
step_timeline({"yours": step}, title="One step of your OverlappedDDP, rank 0")

# %% [markdown]
# **Visible test: 5 points.** It trains a model of three layers on 1, 2 and 3 ranks, and compares every gradient and
# every parameter with a single process. Then it does so with `no_sync`.

# %% test="OverlappedDDP_visible" points=5
from distlib.exercises import Training, check_overlapped_ddp

report = check_overlapped_ddp(
    OverlappedDDP,
    world_sizes=(1, 2, 3),
    trainings=[
        Training([4, 5, 6, 3], passes=n, bucket_bytes=200, first_bucket_bytes=40)
        for n in (1, 2)
    ],
)
assert len(report) == 6
assert report[0].trace.messages_sent == [0]
# 3 buckets, 2 messages each, 2 steps; and the broadcasts of rank 0
assert report[1].trace.messages_sent[1] == 12 < report[1].trace.messages_sent[0]
print(report)

# %% [markdown]
# **Hidden test: 6 points.** 20 steps and 4 ranks, other batches, more and other buckets, frozen layers, parameters that
# have no gradient in some steps on some ranks, layers that are used in another order, two layers with one weight, a
# module with three inputs or three buffers, or a buffer of another dtype, float32.

# %% test="OverlappedDDP_hidden" points=6
# The hidden tests of OverlappedDDP stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: other buckets, frozen layers, missing gradients, float32, more passes, other orders, 20 steps.
import torch

from distlib.exercises import Training, check_overlapped_ddp, hidden_share_of

report = check_overlapped_ddp(
    OverlappedDDP,
    world_sizes=(1, 2, 4),
    trainings=[
        Training(
            [3, 4, 4, 4, 2], bucket_bytes=160, first_bucket_bytes=40, samples=5, buffers=3
        ),
        Training([3, 4, 4, 2], frozen=[1], samples=1, inputs=3),
        Training(
            [3, 4, 4, 2],
            steps=3,
            unused=[(1, 1), (2, 0)],
            bucket_bytes=120,
            first_bucket_bytes=10,
        ),
        Training(
            [3, 4, 4, 2], steps=3, passes=3, frozen=[0], bucket_bytes=100, first_bucket_bytes=20
        ),
        Training(
            [3, 4, 2],
            steps=4,
            unused=[(1, 1)],
            dtype=torch.float32,
            bucket_bytes=60,
            first_bucket_bytes=30,
        ),
        Training([3, 4], frozen=[0], unused=[(0, 1)]),
        Training([3, 4, 5, 4, 3, 2], bucket_bytes=150, first_bucket_bytes=10, unused=[(1, 0)]),
    ],
    seed=53,
)
assert len(report) == 21
assert all(hidden_share_of(report[number]) > 0.5 for number in (1, 2))

report = check_overlapped_ddp(
    OverlappedDDP,
    world_sizes=(2, 3),
    trainings=[
        Training([4] * 4, bucket_bytes=150, order=[0, 2, 1]),
        Training([4] * 4, bucket_bytes=150, tied=True),
        Training([3, 5, 2], steps=3, passes=2, counts=True),
    ],
    seed=55,
)
assert len(report) == 6

report = check_overlapped_ddp(
    OverlappedDDP,
    world_sizes=(2, 4),
    trainings=[Training([3, 4, 2], steps=20, bucket_bytes=130)],
    seed=54,
)
for seen in report:
    ends = [result["parameters"][-1] for result in seen.results]
    assert all(
        torch.equal(mine, first)
        for end in ends
        for mine, first in zip(end, ends[0], strict=True)
    )
### END HIDDEN TESTS

# %% [markdown]
# ## 3. The same with torch: `train_with_ddp`
#
# Your class from part 2 is small enough to read. At work you take torch's: `DistributedDataParallel(model)`, called DDP
# below. Here you write a training loop around it, with several **microbatches** in one step: pieces of a batch that
# does not fit into memory whole. The lesson shows such a loop with our DDP in "Several batches, one all-reduce".
#
# torch's DDP is used as yours, with three differences.
#
# - It takes no `comm`: it finds torch's **default process group**, which is open when your function is called.
# - There is no `finish`, and no call of yours averages: DDP sends during `backward()`. When it returns,
#   `parameter.grad` is the average over all ranks.
# - It decides in the *forward* pass whether the backward pass will send. So both passes of a microbatch stand inside
#   `with ddp.no_sync():`, or both outside.
#
# In one step, the gradient is the average over all microbatches of all ranks. All microbatches have equally many
# samples. So divide each loss by the number of microbatches that this rank has in the step, and let the gradients add
# up. Only the last microbatch of a step is outside of `no_sync`: then gradients travel once in each step.
#
# An example with 2 ranks and a single weight w, without a bias. Rank 0 comes with w = 1, rank 1 with w = 5. The loss of
# a sample is (wx − y)², and its gradient 2x(wx − y). DDP's constructor gives both ranks w = 1. In one step with two
# microbatches, of one sample each:
#
# | | rank 0 | rank 1 |
# |---|---|---|
# | first microbatch (x, y) | (1, 2): gradient −2 | (1, 0): gradient 2 |
# | second microbatch (x, y) | (2, 2): gradient 0 | (2, 5): gradient −12 |
# | each divided by 2 microbatches, added up | −1 | −5 |
# | after the last backward pass | −3 | −3 |
# | a step with rate 0.1: w | 1.3 | 1.3 |


# %% solution="train_with_ddp"
def train_with_ddp(
    model: torch.nn.Module,
    steps: list[list[tuple[torch.Tensor, torch.Tensor]]],
    rate: float,
) -> None:
    """Train a model with torch's DistributedDataParallel and gradient descent, in place.

    torch's default process group is open, over all ranks. All of them call this function.

    Args:
        model: of the same shapes on every rank, with other parameters. All ranks train rank
            0's. A pass uses all parameters. Some may be frozen: requires_grad is False, and
            they have no gradient.
        steps: for each training step this rank's microbatches, one or more. Each is a pair
            (inputs, targets) of shapes [samples, features] and [samples, outputs]. In a step
            all ranks have equally many; another step may have more or fewer. All microbatches
            have equally many samples. Not changed.
        rate: a step of gradient descent subtracts rate times the gradient.

    The loss of a microbatch is mse_loss(outputs, targets), the mean squared error. Each
    microbatch has a forward pass and a backward pass of its own, in this order.

    Cost for N ranks, S bytes of parameters, G bytes of gradients:
        once, when the DDP is made: rank 0's parameters are broadcast, S bytes to each rank.
        in each step: G bytes are all-reduced, in the backward pass of the last microbatch.
    """
    ### BEGIN SOLUTION
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=rate)
    for microbatches in steps:
        optimizer.zero_grad()
        for number, (inputs, targets) in enumerate(microbatches, 1):
            is_last = number == len(microbatches)
            with contextlib.nullcontext() if is_last else ddp.no_sync():
                (mse_loss(ddp(inputs), targets) / len(microbatches)).backward()
        optimizer.step()
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table. `torch_distributed(comm)` opens torch's default process group for a `with`
# block, on this course's messages. So they stand in the trace, and you see which calls of torch's have sent them. The
# first two, of int64, compare the ranks' models; then come the parameters, and one all-reduce.


# %%
def try_ddp(comm: Communicator) -> float:
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, [1.0, 5.0][comm.rank])
    samples = [[(1.0, 2.0), (2.0, 2.0)], [(1.0, 0.0), (2.0, 5.0)]][comm.rank]
    step = [(torch.tensor([[x]]), torch.tensor([[y]])) for x, y in samples]
    with torch_distributed(comm):
        train_with_ddp(model, [step], rate=0.1)
    return model.weight.item()


print("w on each rank:", two.run(try_ddp, timeout=60))
for message in two.trace:
    if message.src == 0:
        print(f"rank 0 sends {message.nbytes} bytes to rank 1: {message.site.call}")

# %% [markdown]
# **Visible test: 2 points.** 1, 2 and 3 ranks. It compares the parameters with a single process, counts the bytes of
# all-reduces and of broadcasts, and looks whether gradients are averages when the last backward pass of a step ends.

# %% test="train_with_ddp_visible" points=2
from distlib.exercises import Accumulation, check_train_with_ddp

report = check_train_with_ddp(
    train_with_ddp,
    world_sizes=(1, 2, 3),
    trainings=[
        Accumulation([3, 4, 5], microbatches=[4]),
        Accumulation([3, 4, 5], microbatches=[4, 1, 5]),
    ],
)
assert report[0].trace.messages_sent == [0]
# on 2 ranks 41 float64: there and back in each of 3 steps; and once to rank 1
assert sum(report[4].trace.bytes_sent) >= (3 * 2 + 1) * 41 * 8
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, steps and layers, other batches, frozen layers, float32.

# %% test="train_with_ddp_hidden" points=3
# The hidden tests of train_with_ddp stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: more ranks and steps, other numbers of microbatches and samples, frozen layers, float32.
import torch

from distlib.exercises import Accumulation, check_train_with_ddp

report = check_train_with_ddp(
    train_with_ddp,
    world_sizes=(1, 2, 3, 4),
    trainings=[
        Accumulation([5, 3, 6, 2], microbatches=[3, 6], samples=2),
        Accumulation([2, 5, 3, 4], microbatches=[6, 1, 3, 5], frozen=[0], samples=4),
        Accumulation([4, 1], microbatches=[1, 1, 1], samples=3),
        Accumulation([3, 5, 2], microbatches=[5, 7], dtype=torch.float32, frozen=[1]),
    ],
    seed=56,
)
assert len(report) == 16
# on 4 ranks 56 float64: there and back in each of 2 steps, three times; and once to 3 ranks
assert sum(report[3].trace.bytes_sent) >= (2 * 6 + 3) * 56 * 8
### END HIDDEN TESTS

# %% [markdown]
# ## 4. Real work: digits on two ranks
#
# This part gives no marks. Your class trains on real ranks and real data: handwritten digits.
#
# Each rank makes its own model, with its own random weights. The library's sampler gives each rank half of the images,
# in a new order in every epoch. Your `OverlappedDDP` keeps the models equal.

# %%
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from distlib.training import DistributedSampler, digits

EPOCHS, BATCH = 12, 32  # images in a batch of each rank


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(64, 32),
        torch.nn.BatchNorm1d(32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 10),
    )


# %%
def train_on_ranks(comm: Communicator, epochs: int) -> tuple[dict[str, torch.Tensor], float]:
    """Runs on every rank. Returns its model's parameters, and its accuracy on the test
    images."""
    train, test = digits()
    torch.manual_seed(comm.rank)  # other weights on each rank
    model = make_model()
    parallel = OverlappedDDP(comm, model, bucket_bytes=4_000, first_bucket_bytes=1_000)
    sampler = DistributedSampler(comm, train.labels)
    loader = DataLoader(TensorDataset(*train), batch_size=BATCH, sampler=sampler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(parallel(images), labels).backward()
            parallel.finish()
            optimizer.step()
    model.eval()
    right = (model(test.images).argmax(1) == test.labels).float().mean()
    found = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return found, float(right)


models = two.run(train_on_ranks, EPOCHS, timeout=120)
largest = max(
    float((models[0][0][name] - value).abs().max()) for name, value in models[1][0].items()
)
print(f"accuracy on the test images: {models[0][1]:.1%} and {models[1][1]:.1%}")
print(f"largest difference between the ranks' parameters: {largest}")
assert largest == 0, "the ranks have drifted apart: does your OverlappedDDP pass its tests?"
assert models[0][1] > 0.9

# %% [markdown]
# The two models began with different weights and saw different images, and their parameters are equal to the last bit:
# both took the same steps with the same averages. Only the running means of the batch norm differ: the last batch of
# each rank has moved its own. So the two models may differ on a test image or two.
#
# ### Your ring below torch's DDP
#
# torch's DDP does not care who sums up its buckets. `torch_distributed(comm, all_reduce=…)` lets a function of yours do
# it. Here is a ring; put your `ring_all_reduce` from exercise 02 in its place, if you like. The cell trains twice for
# one epoch: with this ring below torch's DDP, and with what `torch_distributed` takes by default.


# %%
def my_ring(comm: Communicator, tensor: torch.Tensor) -> None:
    """Sums up a flat tensor over all ranks, in place."""
    size, rank = comm.world_size, comm.rank
    next_rank, previous_rank = (rank + 1) % size, (rank - 1) % size
    chunks = tensor.tensor_split(size)
    for step in range(2 * (size - 1)):  # first the sums go around, then the results
        outgoing, mine = chunks[(rank - step) % size], chunks[(rank - step - 1) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(outgoing, next_rank, incoming, previous_rank)
        mine.copy_(mine + incoming if step < size - 1 else incoming)


def epoch_with_torch(comm: Communicator, own: bool) -> torch.Tensor:
    """Runs on every rank. Returns all parameters of its model, flat."""
    train, _ = digits()
    mine = slice(comm.rank, 1_400, comm.world_size)
    torch.manual_seed(comm.rank)
    with torch_distributed(comm, all_reduce=my_ring if own else None):
        ddp = DistributedDataParallel(make_model())
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.2)
        batches = zip(
            train.images[mine].split(BATCH), train.labels[mine].split(BATCH), strict=True
        )
        for images, labels in batches:
            optimizer.zero_grad()
            cross_entropy(ddp(images), labels).backward()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in ddp.parameters()])


# %%
parameters = {}
for own in (False, True):
    parameters[own] = two.run(epoch_with_torch, own, timeout=120)
    calls = [message for message in two.trace if "all_reduce(" in (message.site.call or "")]
    print(
        f"{'my_ring' if own else 'default'}: {len(calls)} messages of all-reduces, "
        f"{sum(message.nbytes for message in calls):,} bytes"
    )
pairs = zip(parameters[False], parameters[True], strict=True)
apart = max(float((with_default - with_ring).abs().max()) for with_default, with_ring in pairs)
print(f"largest difference between the parameters: {apart}")
assert apart == 0

# %% [markdown]
# The ring has summed up each bucket of torch's. It cuts the bucket into halves, so it sends more messages than the
# default, and as many bytes. The parameters are the same. On two ranks they are equal to the last bit, because a sum of
# two numbers has only one order. On more ranks the ring has an order of its own, and the last digits may differ.

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 05_ddp` does the same with the saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("05_ddp")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("05_ddp")
