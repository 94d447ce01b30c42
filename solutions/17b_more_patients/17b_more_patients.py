# %% [markdown]
# # Exercise 17b: more patients
#
# **This exercise is optional.** It is a side road: no later exercise needs it. Seven more patients wait for you: four
# that hang, two that stop with an error, and one that computes something wrong and says nothing. You find each cause
# and mend it.
#
# - **Time:** about 60 minutes.
# - **Before:** read the lesson [The hang clinic](../../course/17_hang_clinic.ipynb), and do [exercise
#   17](../17_hang_clinic/17_hang_clinic.ipynb), which has the first four patients.
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | points, visible | points, hidden |
# |---|---|---:|---:|
# | 1 | `average_workers` | 1 | 2 |
# | 2 | `reduce_in_grid` | 1 | 2 |
# | 3 | `train_epoch` | 1 | 2 |
# | 4 | `train_until` | 1 | 2 |
# | 5 | `gather_predictions` | 1 | 2 |
# | 6 | `mean_over_samples` | 1 | 2 |
# | 7 | `blend_with_next` | 1 | 2 |
#
# That makes 21 points. Each part is graded by itself.

# %% [markdown]
# ## How to work
#
# **Run the patient first.** Below each program stands a cell that runs it on four simulated ranks. Read what it says
# before you change a line: which rank waits, where, and for whom. Then ask what the program was meant to do. That
# stands in its docstring, and it is what the tests ask for.
#
# **Mend the cause.** It is no cure to delete the call that hangs, to throw away the data of some ranks, or to let every
# rank work for itself: the program must do what its docstring says, on all ranks.
#
# Besides `comm.send`, `comm.recv`, `comm.exchange` and `comm.barrier` you may use these, and no other function of the
# library:
#
# | | |
# |---|---|
# | `all_reduce(comm, tensor)` | afterwards every rank's `tensor` holds the sum over all ranks, in place |
# | `all_reduce(comm, tensor, ReduceOp.MAX)` | the same with the largest values; there is also `MIN` |
# | `broadcast(comm, tensor, root)` | afterwards every rank's `tensor` holds that of rank `root`, in place |
# | `all_gather(comm, tensor)` | rank $r$ has filled chunk $r$ of `tensor`; afterwards every rank has all chunks |
# | `comm.isend(tensor, dst)`, `comm.irecv(tensor, src)` | return at once; `.wait()` on what they return ends them |
# | `comm.split(color)` | a call of all ranks: those of one color get a communicator of theirs, `None` gets `None` |

# %% readonly="setup"
from collections.abc import Callable, Sequence

import torch

from distlib import (
    Communicator,
    RankError,
    ReduceOp,
    SimulatedWorld,
    all_gather,
    all_reduce,
    broadcast,
)

four = SimulatedWorld(4)  # four ranks to try things on


def examine(program, *arguments) -> None:
    """Runs a program on four ranks. Prints what each returns, or what goes wrong."""
    try:
        for rank, returned in enumerate(four.run(program, *arguments)):
            print(f"rank {rank}: {returned}")
    except RankError as error:
        print(f"{type(error).__name__}: {error}")


# %% [markdown]
# ## 1. `average_workers`
#
# > We have eight GPUs. Six of them train, two are spare. So I make a group of the six and average in there. All six
# > hang in the line that makes the group. The spare ones have long gone on to evaluate.


# %% solution="average_workers"
def average_workers(comm: Communicator, tensor: torch.Tensor, workers: int) -> None:
    """Averages a tensor over the first ranks, in place. The others are spare: they send
    nothing, and theirs stays.

    Args:
        comm: the communicator of this rank.
        tensor: float64, of the same shape on all ranks.
        workers: how many ranks train, 1 to comm.world_size: ranks 0 to workers - 1.
    """
    ### BEGIN SOLUTION
    group = comm.split(0 if comm.rank < workers else None)
    if group is not None:
        all_reduce(group, tensor)
        tensor /= group.world_size
    ### STUDENTS GET
    # if comm.rank < workers:
    #     group = comm.split(0)
    #     all_reduce(group, tensor)
    #     tensor /= group.world_size
    ### END SOLUTION


# %% [markdown]
# **Examine it.** Mended, the first three ranks have 2.0, and rank 3 has 4.0.


# %%
def try_workers(comm: Communicator) -> float:
    tensor = torch.tensor([comm.rank + 1.0]).double()
    average_workers(comm, tensor, 3)
    return tensor.item()


examine(try_workers)

# %% [markdown]
# **Visible test: 1 point.** It looks at the tensors, and at every message. Each of `workers` is a number of ranks, and
# how many of them train.

# %% test="average_workers_visible" points=1
from distlib.exercises import check_average_workers

report = check_average_workers(average_workers, workers=[(3, 2), (4, 3), (2, 2), (1, 1)])
assert report[1].trace.bytes_sent[3] == 0
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, a single worker, and tensors of other shapes.

# %% test="average_workers_hidden" points=2
# The hidden tests of average_workers stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 7 ranks, a single worker, all ranks workers, tensors of other shapes.
from distlib.exercises import check_average_workers

report = check_average_workers(
    average_workers,
    workers=[(3, 2), (2, 2), (4, 3), (4, 1), (7, 5), (1, 1)],
    dimensions=3,
    seed=172,
)
assert report[4].trace.bytes_sent[5:] == [0, 0]
### END HIDDEN TESTS

# %% [markdown]
# ## 2. `reduce_in_grid`
#
# > Tensor parallelism alone works, and so does data parallelism. With both, nothing moves for half an hour, although I
# > have set a timeout of five minutes. The stacks of all ranks end in the same line. I have even taken care that
# > neighbours do not use the same cable at the same time!
#
# The ranks form a grid. With 2 rows and 3 columns:
#
#     rank 0   rank 1   rank 2        an activation is summed over its row,
#     rank 3   rank 4   rank 5        a gradient is averaged over its column


# %% solution="reduce_in_grid"
def reduce_in_grid(
    comm: Communicator, activation: torch.Tensor, gradient: torch.Tensor, columns: int
) -> None:
    """Sums the activation over the rank's row, and averages the gradient over its column, both
    in place.

    Each row has a group of its own, and each column. Ranks that share neither send each other
    nothing.

    Args:
        comm: the communicator of this rank.
        activation: float64, of the same shape on all ranks.
        gradient: float64, of the same shape on all ranks.
        columns: how many the grid has; comm.world_size is a multiple. Its rows have consecutive
            ranks.
    """
    ### BEGIN SOLUTION
    row, column = comm.split(comm.rank // columns), comm.split(comm.rank % columns)
    all_reduce(row, activation)
    all_reduce(column, gradient)
    gradient /= column.world_size
    ### STUDENTS GET
    # row, column = comm.split(comm.rank // columns), comm.split(comm.rank % columns)
    # calls = [(row, activation), (column, gradient)]
    # if (comm.rank // columns + comm.rank % columns) % 2:  # neighbours begin with different ones
    #     calls.reverse()
    # for group, tensor in calls:
    #     all_reduce(group, tensor)
    # gradient /= column.world_size
    ### END SOLUTION


# %% [markdown]
# **Examine it.** Two rows, two columns. Every rank has an activation of 1, and a gradient of two numbers, its rank.
# Mended, every activation is 2, and the gradients have 1, 2, 1 and 2.


# %%
def try_grid(comm: Communicator) -> tuple[float, list[float]]:
    activation, gradient = torch.ones(1).double(), torch.full((2,), float(comm.rank)).double()
    reduce_in_grid(comm, activation, gradient, columns=2)
    return activation.item(), gradient.tolist()


examine(try_grid)

# %% [markdown]
# **Visible test: 1 point.** It looks at both tensors, and at every message. Each of `grids` is a number of rows and a
# number of columns.

# %% test="reduce_in_grid_visible" points=1
from distlib.exercises import check_reduce_in_grid

report = check_reduce_in_grid(reduce_in_grid, grids=[(2, 2), (2, 3), (3, 2), (1, 1)])
# at least 2 numbers to the other rank of the row, and 2 to that of the column
assert min(report[0].trace.bytes_sent) >= 32
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks.

# %% test="reduce_in_grid_hidden" points=2
# The hidden tests of reduce_in_grid stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 14 ranks, grids with a single row or column and with many, tensors of other shapes.
from distlib.exercises import check_reduce_in_grid

report = check_reduce_in_grid(
    reduce_in_grid,
    grids=[
        (2, 2),
        (2, 3),
        (3, 2),
        (1, 3),
        (3, 1),
        (2, 4),
        (4, 2),
        (3, 3),
        (2, 7),
        (6, 2),
        (1, 1),
    ],
    dimensions=3,
    seed=183,
)
assert len(report) == 11
### END HIDDEN TESTS

# %% [markdown]
# ## 3. `train_epoch`
#
# > 1,000 files on 4 ranks work. 1,001 files hang at the end of the first epoch. Each rank has its own batches; how many
# > depends on its files. I could leave out the last batches, but on our smallest data set that is a tenth of all.
#
# The model is as simple as can be: a weight that learns the mean of the rows. The gradient of a row is `weight - row`.


# %% solution="train_epoch"
def train_epoch(
    comm: Communicator, weight: torch.Tensor, batches: Sequence[torch.Tensor], rate: float
) -> int:
    """One epoch over all batches of all ranks. Changes `weight` in place.

    In step k every rank that has a batch k takes it, and the weight moves by -rate times the
    mean of `weight - row` over all rows of these batches, on all ranks alike. The epoch ends
    when no rank has a batch left. Every batch is used once, on the rank that has it: rows do
    not travel.

    Args:
        comm: the communicator of this rank.
        weight: [features], float64, the same on all ranks.
        batches: of this rank, each [rows, features], at least one row. Ranks have different
            numbers of them, perhaps none, and batches have different numbers of rows.
        rate: the learning rate.

    Returns:
        The number of steps, the same on all ranks.
    """
    ### BEGIN SOLUTION
    steps = torch.tensor([len(batches)])
    all_reduce(comm, steps, ReduceOp.MAX)
    for step in range(int(steps)):
        rows = batches[step] if step < len(batches) else weight.new_empty(0, len(weight))
        total = torch.cat([(weight - rows).sum(0), weight.new_tensor([len(rows)])])
        all_reduce(comm, total)
        weight -= rate * total[:-1] / total[-1]
    return int(steps)
    ### STUDENTS GET
    # for batch in batches:
    #     # the sum, and how many rows
    #     total = torch.cat([(weight - batch).sum(0), weight.new_tensor([len(batch)])])
    #     all_reduce(comm, total)
    #     weight -= rate * total[:-1] / total[-1]
    # return len(batches)
    ### END SOLUTION


# %% [markdown]
# **Examine it.** Rank 0 has one batch, rank 1 has two, and so on. All rows are 1. Mended, every rank returns 4 steps,
# and the weight 0.9375.


# %%
def try_epoch(comm: Communicator) -> tuple[int, float]:
    weight = torch.zeros(1).double()
    steps = train_epoch(
        comm, weight, [torch.ones(2, 1).double() for _ in range(comm.rank + 1)], rate=0.5
    )
    return steps, weight.item()


examine(try_epoch)

# %% [markdown]
# **Visible test: 1 point.** It compares the weight with that of a single process that has all batches. Each of `epochs`
# has, rank by rank, the number of rows in each batch.

# %% test="train_epoch_visible" points=1
from distlib.exercises import check_train_epoch

report = check_train_epoch(
    train_epoch,
    epochs=[
        [[2, 1, 3], [1]],
        [[40, 1], [2, 9]],
        [[2], [3, 1], []],
        [[1, 2], [2, 2], [3, 1], [1, 1, 2, 1]],
        [[2, 1]],
    ],
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, and drawn numbers of batches.

# %% test="train_epoch_hidden" points=2
# The hidden tests of train_epoch stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, ranks without batches, drawn numbers of batches, and one rank.
from distlib.exercises import check_train_epoch

report = check_train_epoch(
    train_epoch,
    epochs=[
        [[1], [2, 3, 1, 1, 4, 2]],
        [[1], [50], [3, 300]],
        [[2, 1], [1, 2], [3]],
        [[], [1], [], [2, 2, 1]],
        [[], []],
        [[1, 3]],
    ],
    drawn=[3, 6],
    seed=173,
)
assert len(report) == 8
### END HIDDEN TESTS

# %% [markdown]
# ## 4. `train_until`
#
# > I stop when the loss is good enough. On one GPU that works. On four, two ranks print "done", the other two hang, and
# > it is never the same two.


# %% solution="train_until"
def train_until(
    comm: Communicator, weight: torch.Tensor, samples: torch.Tensor, rate: float, target: float
) -> int:
    """Trains until the mean of all ranks' losses is at most `target`, at most 50 steps. Changes
    `weight` in place.

    The loss of a rank is the mean of `(samples - weight) ** 2`, its gradient the mean of
    `weight - row` over its rows. A step moves the weight by -rate times the mean of the
    gradients of all ranks. The losses are looked at before each step. Samples do not travel: in
    each step losses and gradients do.

    Args:
        comm: the communicator of this rank.
        weight: [features], float64, the same on all ranks.
        samples: of this rank, [rows, features]. All ranks have equally many rows.
        rate: the learning rate.
        target: the same on all ranks.

    Returns:
        The number of steps, the same on all ranks; 0 if the target was reached from the start.
    """
    ### BEGIN SOLUTION
    for step in range(50):
        loss = (samples - weight).square().mean()
        all_reduce(comm, loss)
        if loss / comm.world_size <= target:
            return step
        gradient = (weight - samples).mean(0)
        all_reduce(comm, gradient)
        weight -= rate * gradient / comm.world_size
    return 50
    ### STUDENTS GET
    # for step in range(50):
    #     loss = (samples - weight).square().mean()
    #     if loss <= target:
    #         return step
    #     gradient = (weight - samples).mean(0)
    #     all_reduce(comm, gradient)
    #     weight -= rate * gradient / comm.world_size
    # return 50
    ### END SOLUTION


# %% [markdown]
# **Examine it.** The samples of rank $r$ are all $r$. Mended, every rank returns 3 steps.


# %%
def try_until(comm: Communicator) -> int:
    samples = torch.full((2, 1), float(comm.rank)).double()
    return train_until(comm, torch.full((1,), 10.0).double(), samples, rate=0.5, target=3.0)


examine(try_until)

# %% [markdown]
# **Visible test: 1 point.** It looks at the number of steps, and compares the weight with that of a single process. In
# the worlds that `at_once` names, the target is reached from the start.

# %% test="train_until_visible" points=1
from distlib.exercises import check_train_until

report = check_train_until(train_until, world_sizes=(3, 2, 4, 1), at_once=[3])
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks.

# %% test="train_until_hidden" points=2
# The hidden tests of train_until stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, and targets that are reached from the start, or just so, or not in 50 steps.
from distlib.exercises import check_train_until

report = check_train_until(
    train_until, world_sizes=(3, 2, 4, 6, 1), at_once=[2, 3], exact=[4], never=[3, 2], seed=174
)
assert len(report) == 10
### END HIDDEN TESTS

# %% [markdown]
# ## 5. `gather_predictions`
#
# > The evaluation runs fine, up to the last batch. There one rank stops with a length that does not match, or aborts,
# > and the others say that the connection was closed. I could leave out the last batch. Then the accuracy is not that
# > of the test set.


# %% solution="gather_predictions"
def gather_predictions(comm: Communicator, predictions: torch.Tensor) -> torch.Tensor:
    """The predictions of all ranks, on every rank, in the order of the ranks.

    Args:
        comm: the communicator of this rank.
        predictions: of this rank, shape [number]; of the same dtype on all ranks. The number
            differs from rank to rank, and may be 0. They stay as they are.

    Returns:
        Shape [sum of all numbers], of the same dtype: first those of rank 0, then those of rank
        1, and so on.
    """
    ### BEGIN SOLUTION
    numbers = torch.zeros(comm.world_size, dtype=torch.int64)
    numbers[comm.rank] = len(predictions)
    all_gather(comm, numbers)
    everyone = torch.zeros(comm.world_size, int(numbers.max()), dtype=predictions.dtype)
    everyone[comm.rank, : len(predictions)] = predictions
    all_gather(comm, everyone)
    return torch.cat(
        [row[:number] for row, number in zip(everyone, numbers.tolist(), strict=True)]
    )
    ### STUDENTS GET
    # everyone = torch.zeros(comm.world_size, len(predictions), dtype=predictions.dtype)
    # everyone[comm.rank] = predictions
    # all_gather(comm, everyone)
    # return everyone.flatten()
    ### END SOLUTION


# %% [markdown]
# **Examine it.** Rank 3 has one prediction, and the others have two. Mended, every rank has 0, 0, 1, 1, 2, 2, 3.


# %%
def try_gather(comm: Communicator) -> list[int]:
    return gather_predictions(
        comm, torch.full((1 if comm.rank == 3 else 2,), comm.rank)
    ).tolist()


examine(try_gather)

# %% [markdown]
# **Visible test: 1 point.** Each of `lengths` has, rank by rank, the number of predictions.

# %% test="gather_predictions_visible" points=1
from distlib.exercises import check_gather_predictions

report = check_gather_predictions(
    gather_predictions,
    lengths=[[3, 2], [2, 2], [2, 3, 0], [4, 4, 4, 1], [3]],
    dtype=torch.int64,
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, and other dtypes.

# %% test="gather_predictions_hidden" points=2
# The hidden tests of gather_predictions stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, ranks without predictions, and other dtypes.
from distlib.exercises import check_gather_predictions

for dtype, seed in ((torch.float64, 177), (torch.int64, 178)):
    report = check_gather_predictions(
        gather_predictions,
        lengths=[
            [1, 4],
            [3, 3],
            [0, 2, 5],
            [5, 1, 0, 2],
            [2, 2, 2, 2, 2, 1],
            [0, 0],
            [4, 300],
            [4],
        ],
        dtype=dtype,
        seed=seed,
    )
    assert len(report) == 8
### END HIDDEN TESTS

# %% [markdown]
# ## 6. `mean_over_samples`
#
# > On the validation set, the mean loss over all ranks came out as 1065353216 once. Now it stops with an error about
# > dtypes, but only if one rank has no samples, and the tensors are made by the same line on every rank!


# %% solution="mean_over_samples"
def mean_over_samples(comm: Communicator, losses: list[float]) -> float:
    """The mean loss over the samples of all ranks, on every rank.

    Args:
        comm: the communicator of this rank.
        losses: of this rank's samples. The number differs from rank to rank. It may be 0, but
            not on all ranks.

    Returns:
        The sum of all losses, divided by the number of all samples, to nine significant digits.
    """
    ### BEGIN SOLUTION
    total = torch.tensor([sum(losses), len(losses)], dtype=torch.float64)
    all_reduce(comm, total)
    return (total[0] / total[1]).item()
    ### STUDENTS GET
    # total = torch.tensor([sum(losses), len(losses)])
    # all_reduce(comm, total)
    # return (total[0] / total[1]).item()
    ### END SOLUTION


# %% [markdown]
# **Examine it.** Mended, every rank returns 0.25. Print `total` before the sum if you do not see why it fails.


# %%
def try_mean(comm: Communicator) -> float:
    return mean_over_samples(comm, [0.25] * comm.rank)


examine(try_mean)

# %% [markdown]
# **Visible test: 1 point.** Each of `lengths` has, rank by rank, the number of samples.

# %% test="mean_over_samples_visible" points=1
from distlib.exercises import check_mean_over_samples

report = check_mean_over_samples(
    mean_over_samples, lengths=[[2, 0], [3, 1], [0, 2, 4], [1, 3, 2, 0], [3]]
)
assert len(report) == 5
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks, and more of them without samples.

# %% test="mean_over_samples_hidden" points=2
# The hidden tests of mean_over_samples stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, and several without samples.
from distlib.exercises import check_mean_over_samples

report = check_mean_over_samples(
    mean_over_samples,
    lengths=[[1, 4], [0, 3], [5, 0, 1], [0, 0, 7, 0], [2, 9, 4, 1, 0, 3], [2]],
    seed=179,
)
assert len(report) == 6
### END HIDDEN TESTS

# %% [markdown]
# ## 7. `blend_with_next`
#
# > I wanted to be clever: the message travels while I compute. It is as fast as I hoped. But the result is wrong, not
# > always, and never in the debugger.


# %% solution="blend_with_next"
def blend_with_next(
    comm: Communicator, own: torch.Tensor, compute: Callable[[], torch.Tensor]
) -> torch.Tensor:
    """What `compute()` returns, plus what the next rank has as `own`. The messages travel while
    `compute()` runs.

    A message travels once both sides have begun it, the sender and the receiver.

    Args:
        comm: the communicator of this rank, in a world of at least two ranks.
        own: float64, of the same shape on all ranks. It stays as it is.
        compute: takes long, and is called once. Returns a tensor of that shape.

    Returns:
        The sum, of that shape.
    """
    ### BEGIN SOLUTION
    next_rank, previous_rank = (
        (comm.rank + 1) % comm.world_size,
        (comm.rank - 1) % comm.world_size,
    )
    incoming = torch.zeros_like(own)
    receiving, sending = comm.irecv(incoming, next_rank), comm.isend(own, previous_rank)
    computed = compute()
    receiving.wait()
    sending.wait()
    return computed + incoming
    ### STUDENTS GET
    # next_rank = (comm.rank + 1) % comm.world_size
    # previous_rank = (comm.rank - 1) % comm.world_size
    # incoming = torch.zeros_like(own)
    # receiving, sending = comm.irecv(incoming, next_rank), comm.isend(own, previous_rank)
    # blended = compute() + incoming
    # receiving.wait()
    # sending.wait()
    # return blended
    ### END SOLUTION


# %% [markdown]
# **Examine it.** `compute()` gives 10, and rank $r$ has $r$. So the four ranks should return 11, 12, 13 and 10. (Here
# the wrong result comes each time. On a real network it depends on who is faster.)


# %%
def try_blend(comm: Communicator) -> float:
    own = torch.tensor([float(comm.rank)]).double()
    return blend_with_next(comm, own, lambda: torch.tensor([10.0]).double()).item()


examine(try_blend)

# %% [markdown]
# **Visible test: 1 point.** It looks at the result and, in virtual time, at the moment at which each rank is
# done. `compute()` takes a second, and a message 0.3 seconds: together a second, not 1.3.

# %% test="blend_with_next_visible" points=1
from distlib.exercises import check_blend_with_next

report = check_blend_with_next(blend_with_next, world_sizes=(2, 3))
assert len(set(report[1].trace.bytes_sent)) == 1  # as many from each rank
print(report)

# %% [markdown]
# **Hidden test: 2 points.** More ranks.

# %% test="blend_with_next_hidden" points=2
# The hidden tests of blend_with_next stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, and tensors of other shapes.
from distlib.exercises import check_blend_with_next

report = check_blend_with_next(
    blend_with_next, world_sizes=(2, 3, 4, 6), dimensions=3, seed=180
)
assert [min(seen.trace.bytes_sent) for seen in report] == [
    seen.given("own")[0].nbytes for seen in report
]
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 17b_more_patients` does the same with the saved
# notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("17b_more_patients")

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("17b_more_patients")
