# %% [markdown]
# # Exercise 15: your loop on a framework
#
# You have a training loop in plain torch, and a colleague wants it on Lightning Fabric. Another one has Accelerate.
# A port takes ten minutes. Then the loss goes down, nobody sees an error, and yet the training has changed: a gradient
# is divided twice, or clipped on each rank before it is averaged, or some samples count twice. You write two ports that
# train like the original, and two evaluations that count each sample once.
#
# - **Time:** about 90 minutes.
# - **Before:** read the lesson [Frameworks](../../course/15_frameworks.ipynb).
# - **Needs:** nothing but this environment. No GPU, and neither of the frameworks.
#
# | part | function | points, visible | points, hidden |
# |---|---|---:|---:|
# | 1 | `fabric_train` | 2 | 3 |
# | 2 | `fabric_evaluate` | 1 | 2 |
# | 3 | `accelerate_train` | 2 | 3 |
# | 4 | `accelerate_evaluate` | 1 | 2 |
#
# That makes 16 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# Fabric and Accelerate are not installed here. You get a **small Fabric** and a **small Accelerator** instead, which
# run on a communicator of ours. Names, arguments and defaults are those of the real ones, and so is what they do: what
# you write here runs on Lightning Fabric 2.6.6 and Accelerate 1.15.0 without a change. They have what is listed below,
# and little else. All of it stands in `fabric_plays.py` and `accelerate_plays.py` of `distlib/exercises/frameworks/`, a
# few screens each; `Fabric??` in a cell shows it as well. When you wonder who divides by what, look there: it is how
# you find out with the real ones, too.
#
# Your functions get everything as arguments: the framework's object, a plain model, an optimizer for its parameters and
# a plain `DataLoader` of the whole data set. Each rank calls the function. Models begin with different parameters on
# each rank, and loaders with different seeds. Both frameworks see to it that rank 0's parameters count, and that all
# ranks know one order of the samples. So sampling is the framework's work, too: torch's `DistributedSampler` is not
# there when a class is graded.
#
# **Tests look at values and messages.** They compare with training in a single process, and count how often gradients
# travel. All numbers of the models are float64.

# %% readonly="setup"
import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from distlib import Communicator, RankError, SimulatedWorld
from distlib.exercises import Accelerator, Fabric

# two ranks to try things on; messages travel inside of backward
two = SimulatedWorld(2, contexts="threads")
folder = tempfile.TemporaryDirectory()  # for files that you write while you try


def examine(program) -> None:
    """Runs a program on two ranks. Prints what each returns, or what goes wrong."""
    try:
        for rank, returned in enumerate(two.run(program)):
            print(f"rank {rank}: {returned}")
    except RankError as error:
        print(
            "not written yet"
            if "NotImplementedError" in str(error)
            else f"{type(error).__name__}: {error}"
        )


# %% [markdown]
# ## The loop
#
# This is what you port, in plain torch. Read it well: a port does the same, step by step. It needs a process group, so
# there is nothing to run here.
#
# - The loss of a batch is the mean over its samples. Each batch goes through the model by itself: larger ones might not
#   fit.
# - A step takes the gradients of `accumulate` batches of each rank. At the end of an epoch fewer may be left; they make
#   a step, too, and are divided by `accumulate` all the same.
# - Gradients travel once in a step, not after every batch.
# - What is clipped is the mean over the ranks.
# - Each epoch has an order of its own. The frameworks draw one each time that their loader is gone through: do so once
#   in each epoch, and not besides. `len(loader)` counts batches without that.
# - In the end one file holds the parameters of the plain model, by their own names.


# %%
def plain_train(model, optimizer, dataset, batch_size, epochs, accumulate, max_norm, path):
    """Trains with torch's DistributedDataParallel. Returns the mean loss of each epoch, over
    all batches and ranks."""
    sampler = torch.utils.data.DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size, sampler=sampler)
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    losses = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        total = torch.zeros((), dtype=torch.float64)
        for number, (inputs, targets) in enumerate(loader, start=1):
            is_last = number % accumulate == 0 or number == len(loader)  # of its step
            with nullcontext() if is_last else parallel.no_sync():
                loss = mse_loss(parallel(inputs), targets)
                (loss / accumulate).backward()
            total += loss.detach()
            if is_last:
                torch.nn.utils.clip_grad_norm_(parallel.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
        torch.distributed.all_reduce(total)
        losses.append(total.item() / len(loader) / torch.distributed.get_world_size())
    if torch.distributed.get_rank() == 0:
        torch.save({"model": model.state_dict()}, path)
    return losses


# %% [markdown]
# ## 1. `fabric_train`
#
# What there is:
#
# - `fabric.setup(model, optimizer)` returns both, set up. The model comes in a wrapper: it begins with rank 0's
#   parameters, and after a forward and a backward pass through it every rank has the mean gradient.
# - `fabric.setup_dataloaders(loader)` returns a loader of the same data that gives each rank its share: every
#   `world_size`-th sample of an order. If `loader` shuffles, the order is another one each time that the returned
#   loader is gone through.
# - `fabric.backward(loss)` stands instead of `loss.backward()`.
# - `with fabric.no_backward_sync(model, enabled=True):` keeps the gradients of the forward and backward passes inside
#   on their rank, where they add up. If `enabled` is False, it does nothing.
# - `fabric.clip_gradients(model, optimizer, max_norm=1.0)` clips the gradients as they are on this rank now.
# - `fabric.all_reduce(tensor)` makes a tensor the mean over the ranks, in place, and returns it; with
#   `reduce_op="sum"` the sum.
# - `fabric.all_gather(tensor)` returns what all ranks have, `[world_size, *shape]`. All have the same shape.
# - `fabric.save(path, {"model": model})` writes a file on rank 0, of a model its `state_dict`. All ranks call it.
# - `fabric.barrier()` waits for all ranks, `fabric.print(…)` prints on rank 0. And there are `fabric.world_size`,
#   `fabric.global_rank` and `fabric.is_global_zero`.
#
# A step in its smallest form, on two ranks. Rank 0's loss is the weight, and rank 1's is three times the weight: the
# mean gradient is 2.


# %%
def smallest_step(comm: Communicator) -> str:
    fabric, model = Fabric(comm), torch.nn.Linear(1, 1, bias=False)
    model = fabric.setup(model)
    fabric.backward(model(torch.tensor([1.0 + 2 * comm.rank])))
    return f"gradient {model.weight.grad.item()}"


examine(smallest_step)


# %% solution="fabric_train"
def fabric_train(
    fabric: Fabric,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    epochs: int,
    accumulate: int,
    max_norm: float,
    path: str | Path,
) -> list[float]:
    """Trains as plain_train does, on Fabric.

    Args:
        fabric: of this rank.
        model: plain; of each rank. Its parameters are changed in place.
        optimizer: for its parameters.
        loader: of the whole data set; shuffles. The ranks can share its samples without a rest,
            in whole batches.
        epochs: how often to go through the data.
        accumulate: the batches of a step on each rank. The last step of an epoch may have
            fewer.
        max_norm: to which the mean gradient is clipped before a step.
        path: where rank 0 writes, in the end, a dict with one entry: "model", the state_dict of
            the plain model.

    Returns:
        For each epoch the mean loss, over all batches of all ranks. The same on every rank.
    """
    ### BEGIN SOLUTION
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    losses = []
    for _ in range(epochs):
        total = torch.zeros((), dtype=torch.float64)
        for number, (inputs, targets) in enumerate(loader, start=1):
            is_last = number % accumulate == 0 or number == len(loader)
            with fabric.no_backward_sync(model, enabled=not is_last):
                loss = mse_loss(model(inputs), targets)
                fabric.backward(loss / accumulate)
            total += loss.detach()
            if is_last:
                fabric.clip_gradients(model, optimizer, max_norm=max_norm)
                optimizer.step()
                optimizer.zero_grad()
        losses.append(fabric.all_reduce(total / len(loader)).item())
    fabric.save(path, {"model": model})
    return losses
    ### END SOLUTION


# %% [markdown]
# **Try it.** A cell like this one gives no marks. Change it as you like. On two ranks, both should return the same two
# losses, the second one smaller. In 2 epochs with 5 batches and steps of 2 there are 6 steps: two ranks tell each other
# their 2 gradient numbers 6 times.


# %%
def try_fabric(comm: Communicator) -> list[float]:
    torch.manual_seed(comm.rank)
    x = torch.linspace(-1, 1, 20).double()[:, None]
    model = torch.nn.Linear(1, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loader = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=2, shuffle=True)
    return fabric_train(
        Fabric(comm), model, optimizer, loader, 2, 2, 5.0, f"{folder.name}/model.pt"
    )


examine(try_fabric)
print(sum(message.shape == (2,) for message in two.trace) // 2, "times")

# %% [markdown]
# **Visible test: 2 points.** It looks at the parameters, at the losses, at how often gradients travel, and at the file.
# Each of `trainings` has the number of ranks, the batches of a rank in an epoch, the samples of a batch, the batches of
# a step, and the epochs.

# %% test="fabric_train_visible" points=2
from distlib.exercises import check_fabric_train

report = check_fabric_train(fabric_train, trainings=[(2, 6, 4, 3, 2), (3, 5, 4, 2, 2)])
assert report[1].trace.bytes_sent[2] > 0  # rank 2's gradients have travelled
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, a larger model, and other numbers of batches and epochs.

# %% test="fabric_train_hidden" points=3
# The hidden tests of fabric_train stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 4 ranks, 1 to 4 epochs, steps of 2 to 4 batches, some with batches left, a third layer.
from distlib.exercises import check_fabric_train

report = check_fabric_train(
    fabric_train,
    trainings=[
        (2, 6, 5, 3, 3),
        (3, 7, 2, 2, 4),
        (4, 7, 2, 4, 1),
        (2, 3, 5, 4, 3),
        (2, 3, 2, 1, 2),
    ],
    layers=3,
    seed=151,
)
assert report[2].trace.bytes_sent[3] > 0
### END HIDDEN TESTS

# %% [markdown]
# **On the real one.** If `make frameworks` has installed Fabric, this cell runs your function on it, on two processes,
# and the small one next to it. It takes some seconds, and gives no marks.

# %% tags=["skip-execution"]
from distlib.exercises import try_on_the_real_one

try_on_the_real_one(fabric_train)

# %% [markdown]
# ## 2. `fabric_evaluate`
#
# Eleven samples on two ranks: one rank has one more than the other. But all ranks have to make the same calls, so a
# framework prefers equal shares. Fabric repeats samples from the beginning until the number can be shared. Here rank
# 0 gets samples 0, 2, 4, 6, 8, 10, and rank 1 gets 1, 3, 5, 7, 9 and, once more, 0. (On three ranks with seven samples:
# 0, 3, 6 and 1, 4, 0 and 2, 5, 1.) A training hardly notices. A test result that is to be published is wrong.
#
# How you go about it is up to you: drop what is repeated, or share the samples in a way of your own
# (`fabric.setup_dataloaders(loader, use_distributed_sampler=False)` leaves a loader's sampler as it is). But no rank
# looks at more samples than its share in whole batches, such as 6 of 11 in batches of 2, or 4 of 7 in batches of 2 on
# three ranks.


# %% solution="fabric_evaluate"
def fabric_evaluate(fabric: Fabric, model: torch.nn.Module, loader: DataLoader) -> float:
    """The share of samples whose class the model recognizes, each sample of the data set
    counted once.

    Args:
        fabric: of this rank.
        model: plain, with the same parameters on all ranks. It makes of [samples, features] a
            score for each class, [samples, classes]; the largest one counts.
        loader: of the whole data set, of pairs: inputs [samples, features], labels [samples].
            It does not shuffle. The data set is a TensorDataset.

    Returns:
        From 0 to 1; the same on every rank.
    """
    ### BEGIN SOLUTION
    share = fabric.setup_dataloaders(loader)
    with torch.no_grad():
        own = torch.cat([model(inputs).argmax(1) == labels for inputs, labels in share])
    every = fabric.all_gather(own)  # [ranks, samples of each]
    return every.T.flatten()[: len(loader.dataset)].double().mean().item()
    ### END SOLUTION


# %% [markdown]
# **Visible test: 1 point.** It looks at what each rank returns, and how many samples went through its model. Each of
# `evaluations` has the number of ranks, the number of samples, and the batch size.

# %% test="fabric_evaluate_visible" points=1
from distlib.exercises import check_fabric_evaluate

report = check_fabric_evaluate(fabric_evaluate, evaluations=[(2, 9, 2), (3, 10, 2)])
assert report[1].trace.bytes_sent[2] > 0
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, and fewer samples than ranks.

# %% test="fabric_evaluate_hidden" points=2
# The hidden tests of fabric_evaluate stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 4 ranks, fewer samples than ranks, more batches, and a model of two layers.
from distlib.exercises import check_fabric_evaluate

report = check_fabric_evaluate(
    fabric_evaluate,
    evaluations=[(2, 9, 4), (3, 16, 4), (4, 13, 2), (4, 3, 2), (2, 9, 1), (2, 25, 3)],
    layers=2,
    seed=152,
)
assert report[3].trace.bytes_sent[2] > 0
### END HIDDEN TESTS

# %% [markdown]
# ## 3. `accelerate_train`
#
# The same loop on the other framework. What there is:
#
# - `accelerator.prepare(model, optimizer, loader)` returns each of them, prepared, in this order. The model comes in a
#   wrapper as with Fabric. The loader gives rank $r$ the batches number $r$, $r$ + `num_processes`, … of `loader`.
# - `with accelerator.accumulate(model):` stands around all that is done with one batch. It knows which batch is the
#   last one of its step, also at the end of an epoch, and lets gradients travel only then.
# - `accelerator.backward(loss)` stands instead of `loss.backward()`.
# - `accelerator.gradient_accumulation_steps` is the number of batches of a step. The accelerator was made with it, so
#   it is no argument of your function.
# - `accelerator.sync_gradients` says whether the batch of this `accumulate` is the last one of its step.
# - `optimizer.step()` and `optimizer.zero_grad()` of a prepared optimizer do nothing before the last batch of a step.
# - `accelerator.clip_grad_norm_(model.parameters(), 1.0)` clips the gradients as they are on this rank now, whenever it
#   is called.
# - `accelerator.reduce(tensor, "mean")` returns the mean over the ranks, without `"mean"` the sum. It takes no numbers,
#   only tensors.
# - `accelerator.gather(tensor)` returns what all ranks have, one after the other along dimension 0. All have the same
#   shape. `accelerator.gather_for_metrics(tensor)` does the same; see part 4.
# - `accelerator.unwrap_model(model)` returns the plain model inside. The wrapper's `state_dict` has other names.
# - `accelerator.save(object, path)` writes a file on rank 0.
# - `accelerator.wait_for_everyone()` waits for all ranks, `accelerator.print(…)` prints on rank 0. And there are
#   `accelerator.num_processes`, `accelerator.process_index` and `accelerator.is_main_process`.
#
# Before you begin, read what `backward` and `accumulate` do:

# %%
import inspect

print(
    inspect.getsource(Accelerator.backward), inspect.getsource(Accelerator.accumulate), sep="\n"
)


# %% solution="accelerate_train"
def accelerate_train(
    accelerator: Accelerator,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader,
    epochs: int,
    max_norm: float,
    path: str | Path,
) -> list[float]:
    """Trains as plain_train does, on Accelerate, which gives the samples to the ranks in
    another order.

    Args:
        accelerator: of this rank. It knows how many batches make a step.
        model, optimizer, loader, epochs, max_norm, path: as of fabric_train.

    Returns:
        For each epoch the mean loss, over all batches of all ranks. The same on every rank.
    """
    ### BEGIN SOLUTION
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for _ in range(epochs):
        total = torch.zeros((), dtype=torch.float64)
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        losses.append(accelerator.reduce(total / len(loader), "mean").item())
    accelerator.save({"model": accelerator.unwrap_model(model).state_dict()}, path)
    return losses
    ### END SOLUTION


# %% [markdown]
# **Try it.** The accelerator is made for steps of 2 batches.


# %%
def try_accelerate(comm: Communicator) -> list[float]:
    torch.manual_seed(comm.rank)
    x = torch.linspace(-1, 1, 20).double()[:, None]
    model = torch.nn.Linear(1, 1).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    loader = DataLoader(TensorDataset(x, 3 * x + 1), batch_size=2, shuffle=True)
    accelerator = Accelerator(comm, gradient_accumulation_steps=2)
    return accelerate_train(
        accelerator, model, optimizer, loader, 2, 5.0, f"{folder.name}/model.pt"
    )


examine(try_accelerate)
print(sum(message.shape == (2,) for message in two.trace) // 2, "times")

# %% [markdown]
# **Visible test: 2 points.** As in part 1.

# %% test="accelerate_train_visible" points=2
from distlib.exercises import check_accelerate_train

report = check_accelerate_train(accelerate_train, trainings=[(2, 6, 4, 3, 2), (3, 5, 4, 2, 2)])
assert report[1].trace.bytes_sent[2] > 0
print(report)

# %% [markdown]
# **Hidden test: 3 points.** More ranks, a larger model, and other numbers of batches and epochs.

# %% test="accelerate_train_hidden" points=3
# The hidden tests of accelerate_train stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 4 ranks, 1 to 4 epochs, steps of 2 to 4 batches, some with batches left, a third layer.
from distlib.exercises import check_accelerate_train

report = check_accelerate_train(
    accelerate_train,
    trainings=[(2, 6, 5, 3, 3), (3, 7, 2, 2, 4), (4, 7, 2, 4, 1), (2, 3, 5, 4, 3)],
    layers=3,
    seed=153,
)
assert report[2].trace.bytes_sent[3] > 0
### END HIDDEN TESTS

# %% [markdown]
# **On the real one**, if it is installed. No marks.

# %% tags=["skip-execution"]
try_on_the_real_one(accelerate_train)

# %% [markdown]
# ## 4. `accelerate_evaluate`
#
# Accelerate gives out whole batches: it repeats samples from the beginning until all ranks have equally many full ones.
# Eleven samples in batches of two are six batches; on two ranks the last one gets sample 0 again. On four ranks there
# are eight batches, and five samples are there twice.
#
# `accelerator.gather_for_metrics(tensor)` gathers as `gather` does, and drops what is repeated. It can do so only as
# long as the loop over the prepared loader runs: it must know whether this batch is the last one, and how many of all
# ranks' samples in it are new. And it counts along dimension 0, so it needs an entry for each sample of the batch.


# %% solution="accelerate_evaluate"
def accelerate_evaluate(
    accelerator: Accelerator, model: torch.nn.Module, loader: DataLoader
) -> float:
    """The share of samples whose class the model recognizes, each sample of the data set
    counted once.

    Args:
        accelerator: of this rank.
        model, loader: as of fabric_evaluate.

    Returns:
        From 0 to 1; the same on every rank.
    """
    ### BEGIN SOLUTION
    loader = accelerator.prepare(loader)
    recognized = samples = 0
    with torch.no_grad():
        for inputs, labels in loader:
            is_right = accelerator.gather_for_metrics(model(inputs).argmax(1) == labels)
            recognized += is_right.sum().item()
            samples += len(is_right)
    return recognized / samples
    ### END SOLUTION


# %% [markdown]
# **Visible test: 1 point.** As in part 2. Again no rank looks at more samples than its share in whole batches.

# %% test="accelerate_evaluate_visible" points=1
from distlib.exercises import check_accelerate_evaluate

report = check_accelerate_evaluate(accelerate_evaluate, evaluations=[(2, 11, 2), (3, 7, 2)])
assert report[1].trace.bytes_sent[2] > 0
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, and fewer samples than ranks.

# %% test="accelerate_evaluate_hidden" points=2
# The hidden tests of accelerate_evaluate stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 4 ranks, fewer samples than ranks, more batches, and a model of two layers.
from distlib.exercises import check_accelerate_evaluate

report = check_accelerate_evaluate(
    accelerate_evaluate,
    evaluations=[(2, 9, 4), (3, 10, 3), (4, 13, 2), (4, 3, 2), (2, 13, 1), (2, 1, 2)],
    layers=2,
    seed=154,
)
assert report[3].trace.bytes_sent[2] > 0
### END HIDDEN TESTS

# %% [markdown]
# **On the real ones**, if they are installed. No marks.

# %% tags=["skip-execution"]
for evaluate in (fabric_evaluate, accelerate_evaluate):
    try_on_the_real_one(evaluate)

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 15_frameworks` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("15_frameworks")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("15_frameworks")
