# %% [markdown]
# # Exercise 09: pipeline
#
# You write three functions: two schedules, and the loop with which a rank carries out its part of any schedule. At the
# end they train a model whose layers are spread over several ranks.
#
# - **Time:** about 75 minutes.
# - **Before:** read the lesson [Pipeline](../../course/09_pipeline.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `gpipe` | 2 | 2 |
# | 2 | `one_forward_one_backward` | 3 | 3 |
# | 3 | `run_stage` | 5 | 6 |
#
# There are 21 points. Each part is graded by itself, because the tests of `run_stage` bring schedules of their own.
# Exercise 09b, a side road, does the same with torch's own pipeline.

# %% [markdown]
# ## How to work
#
# Rank $s$ has stage $s$ of the model, and the batch is cut into microbatches. An **action** is a text: `"2F0"` is the
# forward pass of microbatch 0 through stage 2, `"2B13"` the backward pass of microbatch 13. A **schedule** is a list
# with one list of actions for each stage. Every rank does its actions in this order, and waits where it must:
#
# - `2F0` needs the output of `1F0`.
# - `2B0` needs the activations that `2F0` has kept, and the gradient from `3B0`. On the last stage it needs only `2F0`.
#
# The tests let a forward pass take 1 second and a backward pass 2. Write the schedules yourself: a call of the
# library's own is refused.

# %% readonly="setup"
from collections.abc import Callable, Sequence

import torch

from distlib import Communicator, SimulatedWorld, World
from distlib.training import parse_schedule, schedule_grid, time_schedule

two = World(2)  # two ranks to try things on


def read_action(action: str) -> tuple[str, int]:
    """The kind and the microbatch of an action: ("F", 13) for "2F13"."""
    kind = "F" if "F" in action else "B"
    return kind, int(action.partition(kind)[2])


def show(schedule: list[list[str]]) -> None:
    """Print when each rank does what; a backward pass takes twice as long as a forward pass."""
    print(schedule_grid(time_schedule(parse_schedule(" ".join(row) for row in schedule))))


# %% [markdown]
# ## 1. All forward, then all backward: `gpipe`
#
# Every stage does the forward passes of all microbatches, and then all backward passes. With 2 stages and 3
# microbatches:
#
# | stage | actions |
# |---|---|
# | 0 | `0F0 0F1 0F2 0B0 0B1 0B2` |
# | 1 | `1F0 1F1 1F2 1B0 1B1 1B2` |
#
# With $p$ stages and $m$ microbatches a step takes $(m + p - 1) \cdot 3$ seconds: here $(3 + 2 - 1) \cdot 3 = 12$.
# Every schedule that has all forward passes first, and takes no longer, is right.


# %% solution="gpipe"
def gpipe(num_stages: int, num_microbatches: int) -> list[list[str]]:
    """The schedule that does all forward passes first. Only computes; sends no message.

    Args:
        num_stages: at least 1. Stage s is on rank s.
        num_microbatches: at least 1.

    Returns:
        For each stage its actions in order, such as [["0F0", "0B0"], ["1F0", "1B0"]].

    Cost: (num_microbatches + num_stages - 1) times a forward and a backward pass. Every stage
        keeps up to num_microbatches microbatches.
    """
    ### BEGIN SOLUTION
    return [
        [
            f"{stage}{kind}{microbatch}"
            for kind in "FB"
            for microbatch in range(num_microbatches)
        ]
        for stage in range(num_stages)
    ]
    ### END SOLUTION


# %% [markdown]
# **Try it.** `..` is a second in which a rank waits, and `--` the second half of a backward pass. A cell like this one
# gives no marks. Change it as you like.

# %%
show(gpipe(2, 3))
print()
show(gpipe(4, 4))

# %% [markdown]
# **Visible test: 2 points.**

# %% test="gpipe_visible" points=2
from distlib.exercises import check_gpipe

report = check_gpipe(gpipe, sizes=[(2, 3), (1, 1), (1, 3), (3, 2), (4, 4)])
assert [len(row) for row in report.answers[0]] == [6, 6]
assert sorted(report.answers[3][1]) == ["1B0", "1B1", "1F0", "1F1"]
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More stages, more microbatches.

# %% test="gpipe_hidden" points=2
# The hidden tests of gpipe stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 12 stages and 20 microbatches, more stages than microbatches, and the other way round.
from distlib.exercises import check_gpipe

report = check_gpipe(
    gpipe, sizes=[(2, 1), (5, 1), (3, 3), (8, 2), (4, 16), (12, 20), (1, 4)], drawn=6, seed=91
)
assert len(report) == 13
assert sorted(report.answers[0][1]) == ["1B0", "1F0"]
assert [len(row) for row in report.answers[5]] == [40] * 12
### END HIDDEN TESTS

# %% [markdown]
# ## 2. Backward as soon as possible: `one_forward_one_backward`
#
# GPipe keeps the activations of all $m$ microbatches. 1F1B takes just as long, and keeps much less when there are many
# microbatches. A stage begins with one forward pass for itself and one for each later stage, as far as there are
# microbatches: the **warm-up**. Then the first gradient comes back, and backward and forward passes take turns, one
# backward, one forward. When no forward pass is left, the remaining backward passes follow. With 3 stages and 4
# microbatches:
#
# | stage | actions |
# |---|---|
# | 0 | `0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3` |
# | 1 | `1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3` |
# | 2 | `2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3` |
#
# Stage 2 is the last stage, so that it can begin with the backward pass of microbatch 0 right after the forward pass.
# Stage 1 does one more forward pass before its first backward pass, for stage 2. Stage 0 does two more, for stages 1
# and 2.
#
# **Stage $s$ keeps at most $\min(m, p - s)$ microbatches at the same time**, from the forward to the backward pass:
# with 3 stages, stage 0 keeps 3 of them, however many there are. A step takes as long as with GPipe,
# $(m + p - 1) \cdot 3$ seconds. Every schedule that takes no longer and keeps no more is right. A long warm-up costs
# memory, because more microbatches are kept. A short warm-up costs time, because later stages wait.


# %% solution="one_forward_one_backward"
def one_forward_one_backward(num_stages: int, num_microbatches: int) -> list[list[str]]:
    """The schedule 1F1B: as fast as GPipe, and with fewer microbatches kept. Only computes;
    sends no message.

    Args:
        num_stages: at least 1. Stage s is on rank s.
        num_microbatches: at least 1.

    Returns:
        For each stage its actions in order, such as [["0F0", "0B0"], ["1F0", "1B0"]].

    Cost: (num_microbatches + num_stages - 1) times a forward and a backward pass. Stage s keeps
        up to min(num_microbatches, num_stages - s) microbatches, and does that many forward
        passes before its first backward pass.
    """
    ### BEGIN SOLUTION
    schedule = []
    for stage in range(num_stages):
        warmup = min(num_microbatches, num_stages - stage)
        actions = [f"{stage}F{microbatch}" for microbatch in range(warmup)]
        for microbatch in range(num_microbatches):
            actions.append(f"{stage}B{microbatch}")
            if microbatch + warmup < num_microbatches:
                actions.append(f"{stage}F{microbatch + warmup}")
        schedule.append(actions)
    return schedule
    ### END SOLUTION


# %% [markdown]
# **Try it** on the numbers of the table, and on more microbatches.

# %%
show(one_forward_one_backward(3, 4))
print()
show(one_forward_one_backward(3, 7))

# %% [markdown]
# **Visible test: 3 points.**

# %% test="one_forward_one_backward_visible" points=3
from distlib.exercises import check_one_forward_one_backward

report = check_one_forward_one_backward(
    one_forward_one_backward, sizes=[(3, 4), (1, 1), (2, 2), (2, 4), (3, 6), (4, 2), (4, 8)]
)
assert [len(row) for row in report.answers[0]] == [8, 8, 8]
assert sorted(report.answers[2][1]) == ["1B0", "1B1", "1F0", "1F1"]
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More stages, more microbatches, and fewer microbatches than stages.

# %% test="one_forward_one_backward_hidden" points=3
# The hidden tests of one_forward_one_backward stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 12 stages and 20 microbatches, more stages than microbatches, and the other way round.
from distlib.exercises import check_one_forward_one_backward

report = check_one_forward_one_backward(
    one_forward_one_backward,
    sizes=[(5, 3), (2, 1), (1, 5), (3, 3), (6, 7), (8, 2), (4, 16), (12, 20)],
    drawn=6,
    seed=92,
)
assert len(report) == 14
assert sorted(report.answers[1][1]) == ["1B0", "1F0"]
assert [len(row) for row in report.answers[7]] == [40] * 12
### END HIDDEN TESTS

# %% [markdown]
# ## 3. Carry it out: `run_stage`
#
# Every rank calls `run_stage` with its own stage and its own row of a schedule. It does the actions one after another.
#
# | | begins with | ends with |
# |---|---|---|
# | forward, first rank | `inputs[i]` | sends the output to rank $s + 1$ |
# | forward, in between | receives its input from rank $s - 1$ | sends the output to rank $s + 1$ |
# | forward, last rank | receives its input from rank $s - 1$ | computes the loss from the output and `targets[i]` |
# | backward, last rank | the loss | sends the gradient of its input to rank $s - 1$ |
# | backward, in between | receives the gradient of its output from rank $s + 1$ | the same as the last rank |
# | backward, first rank | receives the gradient of its output from rank $s + 1$ | sends nothing |
#
# A single rank is the first and the last one: it begins with `inputs[i]`, computes the loss, and sends nothing. For
# example with 2 stages and the rows `0F0 0F1 0B0 0B1` and `1F0 1B0 1F1 1B1`:
#
# | rank 0 | rank 1 |
# |---|---|
# | `0F0` sends output 0 | `1F0` receives input 0, computes loss 0 |
# | `0F1` sends output 1 | `1B0` goes back from loss 0, sends the gradient of input 0 |
# | `0B0` receives the gradient of output 0, goes back | `1F1` receives input 1, computes loss 1 |
# | `0B1` receives the gradient of output 1, goes back | `1B1` goes back from loss 1, sends the gradient of input 1 |
#
# **Two pieces of one graph.** A message carries numbers, and not how they came about. So the input that a rank has
# received must get `requires_grad_()`, after `recv` and before `module`: after backward, its `.grad` is what the rank
# before needs. If the gradient of an output has come by message, `output.backward(gradient)` begins there. Send
# `output.detach()`: the numbers alone.
#
# **The loss of the batch** is the mean over all its samples. `loss_function` returns the mean over one microbatch, and
# microbatches may have different numbers of samples. In a batch of $N$ samples a microbatch of $n$ samples counts
# $n / N$; `shapes` has all of them. Multiply its loss by that before it goes back: then the sum is the loss of the
# batch, all gradients are right, on all ranks, and torch adds them up in `parameter.grad`.
#
# **No deadlock.** Above, `0F1` sends to rank 1 while `1B0` sends to rank 0. With `send` each would wait until the other
# receives. `isend` only begins: collect the handles, and wait for them at the latest when all actions are done. `recv`
# may stay: it waits for what the action needs.
#
# **Tags.** Two ranks may take the microbatches in different orders. Give every message its microbatch as `tag`, in
# `isend` and in `recv`. Then it does not matter which one comes first. An output and its gradient may share a tag.
#
# **Keep little.** Between the forward and the backward pass of a microbatch its stage must keep input and output, or
# the loss. After that, forget them: `kept.pop(i)` takes an entry out of a dict. Add up `loss.item()`: a loss holds on
# to its graph. What is being sent is not counted here. In a real program, wait for the handle of an output as soon as
# its gradient has come: until then the handle keeps the output.


# %% solution="run_stage"
def run_stage(
    comm: Communicator,
    module: torch.nn.Module,
    actions: Sequence[str],
    shapes: Sequence[Sequence[int]],
    inputs: Sequence[torch.Tensor] | None,
    targets: Sequence[torch.Tensor] | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> float | None:
    """Do the actions of this rank's stage: one forward and one backward pass of each
    microbatch.

    Afterwards parameter.grad of every parameter of the stage is the gradient of the mean loss
    over all samples of the batch. Before, it is None. Nothing else that was given changes, and
    inputs get no gradient. All tensors are float64.

    Args:
        comm: the communicator of this rank. Rank s has stage s; there are as many ranks as
            stages, perhaps only one.
        module: this rank's stage; all its parameters need a gradient. Call it once for each
            microbatch.
        actions: what this rank does, in this order, such as ["1F0", "1B0", "1F1", "1B1"]. The
            schedule of all ranks can be executed.
        shapes: for each microbatch the shape of this stage's input, [samples, features].
        inputs: on the first rank the input of each microbatch; on the others None.
        targets: on the last rank the targets of each microbatch; on the others None.
        loss_function: loss_function(output, targets) is the mean loss over the samples of a
            microbatch, shape [].

    Returns:
        On the last rank the mean loss over all samples of the batch, as a float; on the others
        None.

    Cost: for each microbatch one message to the next rank, if there is one, of the size of the
        output, and one to the rank before, if there is one, of the size of the input. A
        microbatch's input, output and all that is computed between them are kept from its
        forward pass to its backward pass, and no longer.
    """
    ### BEGIN SOLUTION
    first, last = comm.rank == 0, comm.rank == comm.world_size - 1
    samples = sum(shape[0] for shape in shapes)
    kept, sends, total = {}, [], 0.0
    for kind, i in map(read_action, actions):
        if kind == "F":
            if first:
                entry = inputs[i]
            else:
                entry = torch.empty(shapes[i], dtype=torch.float64)
                comm.recv(entry, comm.rank - 1, tag=i)
                entry.requires_grad_()
            output = module(entry)
            if last:
                output = loss_function(output, targets[i]) * shapes[i][0] / samples
                total += output.item()
            else:
                sends.append(comm.isend(output.detach(), comm.rank + 1, tag=i))
            kept[i] = entry, output
        else:
            entry, output = kept.pop(i)
            gradient = torch.ones_like(output)
            if not last:
                comm.recv(gradient, comm.rank + 1, tag=i)
            output.backward(gradient)
            if not first:
                sends.append(comm.isend(entry.grad, comm.rank - 1, tag=i))
    for send in sends:
        send.wait()
    return total if last else None
    ### END SOLUTION


# %% [markdown]
# **Try it** with two ranks and two microbatches of 2 and 1 samples. The model is a layer on each rank. The last line is
# what a single process computes.


# %%
batch = [
    torch.tensor(rows, dtype=torch.float64) for rows in ([[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]])
]
wanted = [torch.tensor(rows, dtype=torch.float64) for rows in ([[1.0], [0.0]], [[1.0]])]
features = [2, 3, 1]  # 2 into stage 0, 3 from there into stage 1, 1 out of it


def layer(stage: int) -> torch.nn.Module:
    # a layer's weights depend on the layer, and not on how the model is cut
    torch.manual_seed(stage)
    return torch.nn.Linear(features[stage], features[stage + 1]).double()


def try_stage(
    comm: Communicator, schedule: list[list[str]]
) -> tuple[float | None, list[float]]:
    module, actions = layer(comm.rank), schedule[comm.rank]
    shapes = [[2, features[comm.rank]], [1, features[comm.rank]]]
    inputs, targets = (batch, None) if comm.rank == 0 else (None, wanted)
    loss = run_stage(
        comm, module, actions, shapes, inputs, targets, torch.nn.functional.mse_loss
    )
    return loss, module.weight.grad.flatten().tolist()


for rank, (loss, gradient) in enumerate(
    two.run(try_stage, [["0F0", "0F1", "0B0", "0B1"], ["1F0", "1B0", "1F1", "1B1"]])
):
    print(f"rank {rank}: loss {loss}, gradient {gradient}")
print(two.trace.summary())
whole = torch.nn.Sequential(layer(0), layer(1))
loss = torch.nn.functional.mse_loss(whole(torch.cat(batch)), torch.cat(wanted))
loss.backward()
print("alone: ", loss.item(), *(stage.weight.grad.flatten().tolist() for stage in whole))

# %% [markdown]
# **Visible test: 5 points.** It compares loss and gradients with those of a single process, and looks at each message,
# at the order of the passes, and at how many microbatches a rank keeps at the same time. Microbatches have 2 samples
# each; in one case the last one has fewer. One case has another loss function, and one calls `run_stage` twice.

# %% test="run_stage_visible" points=5
from distlib.exercises import Plan, check_run_stage
from distlib.training import schedules

report = check_run_stage(
    run_stage,
    plans=[
        Plan("one microbatch", schedules.naive(2, 1)),
        Plan("GPipe", schedules.gpipe(2, 3)),
        Plan("1F1B", schedules.one_forward_one_backward(2, 4)),
        Plan("1F1B", schedules.one_forward_one_backward(3, 4), samples=[2, 2, 2, 1]),
        Plan("1F1B", schedules.one_forward_one_backward(1, 3)),
        Plan("GPipe", schedules.gpipe(4, 2), loss="absolute error"),
        Plan("1F1B", schedules.one_forward_one_backward(2, 3), calls=2),
    ],
)
assert report[1].trace.messages_sent == [3, 3]
# 7 samples; 5, then 4 features
assert report[3].trace.bytes_sent == [7 * 5 * 8, 7 * (4 + 5) * 8, 7 * 4 * 8]
assert report[4].trace.bytes_sent == [0]
for seen in report:
    expected = schedules.most_live(seen.facts.schedule)
    assert [max(result["kept"]) for result in seen.results] == expected
print(report)

# %% [markdown]
# **Hidden test: 6 points.** More ranks, microbatches of very different sizes, other numbers of features, schedules in
# which ranks take the microbatches in different orders, and drawn ones.

# %% test="run_stage_hidden" points=6
# The hidden tests of run_stage stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 11 ranks, uneven microbatches, other features, any order of actions, another loss, two calls.
from distlib.exercises import Plan, check_run_stage
from distlib.training import schedules

crossed = schedules.parse_schedule(
    ["0F0 0F1 0F2 0B2 0B0 0B1", "1F1 1F0 1B0 1F2 1B1 1B2", "2F0 2F1 2B1 2B0 2F2 2B2"]
)
report = check_run_stage(
    run_stage,
    plans=[
        Plan("1F1B", schedules.one_forward_one_backward(2, 6), samples=[1, 5, 2, 3, 1, 4]),
        Plan("ranks in different orders", crossed, samples=[3, 1, 2], features=[6, 2, 7, 3]),
        Plan("naive", schedules.naive(3, 3), features=[1, 4, 6, 1]),
        Plan("GPipe", schedules.gpipe(1, 4), samples=[1, 2, 3, 1], features=[4, 6]),
        Plan("1F1B", schedules.one_forward_one_backward(4, 12)),
        Plan("1F1B", schedules.one_forward_one_backward(6, 3), samples=[2, 2, 1]),
        Plan("GPipe", schedules.gpipe(3, 5), loss="absolute error", features=[2, 6, 8]),
        Plan("1F1B", schedules.one_forward_one_backward(3, 4), samples=[2, 1, 3, 2], calls=2),
        Plan("1F1B", schedules.one_forward_one_backward(11, 2)),
    ],
    drawn=[(2, 5), (3, 4), (4, 6)],
    seed=93,
)
assert len(report) == 12
assert report[0].trace.bytes_sent == [16 * 5 * 8] * 2
assert report[2].trace.messages_sent == [3, 6, 3]
assert report[3].trace.bytes_sent == [0]
assert report[4].trace.bytes_sent == [
    24 * 5 * 8,
    24 * (4 + 5) * 8,
    24 * (2 + 4) * 8,
    24 * 2 * 8,
]
for seen in report:
    expected = schedules.most_live(seen.facts.schedule)
    assert [max(result["kept"]) for result in seen.results] == expected
    assert seen.trace.messages_sent[0] == len(seen.facts.samples) * seen.facts.calls * (
        seen.size > 1
    )
### END HIDDEN TESTS

# %% [markdown]
# ## All together
#
# Four ranks train a model of four layers, in 1F1B by your function, with 8 microbatches of 4 samples. The loss falls.
# Before you run it: how many bytes does a rank in the middle send in each step? Afterwards change `schedule` to
# `gpipe(4, MICROBATCHES)`: losses and bytes stay the same.

# %%
STEPS, MICROBATCHES = 5, 8
schedule = one_forward_one_backward(4, MICROBATCHES)


def train(comm: Communicator, rows: list[list[str]]) -> list[float | None]:
    torch.manual_seed(comm.rank)
    module = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()).double()
    torch.manual_seed(0)  # the same data on all ranks
    data = torch.randn(2, MICROBATCHES, 4, 16, dtype=torch.float64).tanh()
    inputs = list(data[0]) if comm.rank == 0 else None
    targets = list(data[1]) if comm.rank == comm.world_size - 1 else None
    losses, mse = [], torch.nn.functional.mse_loss
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses.append(
            run_stage(
                comm, module, rows[comm.rank], [[4, 16]] * MICROBATCHES, inputs, targets, mse
            )
        )
        optimizer.step()
    return losses


simulated = SimulatedWorld(4)
losses = simulated.run(train, schedule, timeout=30)[-1]
print("losses:", *(f"{loss:.4f}" for loss in losses))
print(
    "bytes sent by each rank in each step:",
    [nbytes // STEPS for nbytes in simulated.trace.bytes_sent],
)

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 09_pipeline` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("09_pipeline")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("09_pipeline")
