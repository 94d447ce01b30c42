# %% [markdown]
# # Exercise 09b: torch's pipeline
#
# You take one batch forward and backward through a pipeline, by torch's own stages and schedule. It is a side road: no
# later exercise needs it.
#
# - **Time:** about 30 minutes.
# - **Before:** read the lesson [Faster pipelines](../../course/09b_faster_pipelines.ipynb), or at least
#   [Pipeline](../../course/09_pipeline.ipynb).
# - **Needs:** nothing but this environment. No GPU.
#
# | part | function | visible tests | hidden tests |
# |---|---|---:|---:|
# | 1 | `pipeline_step` | 4 | 5 |
#
# That makes 9 points.

# %% [markdown]
# ## 1. Now with torch's own: `pipeline_step`
#
# torch brings stages and schedules in `torch.distributed.pipelining`; the lesson shows them below
# [In real frameworks](../../course/09_pipeline.ipynb).
#
# - `PipelineStage(module, index, number, device)` is this rank's stage: its module, the stage's number, how many stages
#   there are, and where they compute. It knows whether it `is_first` and whether it `is_last`.
# - A schedule is an object: `Schedule1F1B(stage, n_microbatches=…, loss_fn=…)`, the same on all ranks. It cuts batches
#   into microbatches by itself.
# - `schedule.step(…)` goes forward and backward through all microbatches. Every rank calls it. The first rank hands
#   over the whole batch. The last one names the targets, `target=…`, and an empty list, `losses=…`, into which torch
#   puts the loss of each microbatch, a tensor. The others hand over nothing: theirs comes by message.
#
# **Mean or sum.** torch adds up the gradients of the microbatches. If the loss is a mean over samples, the gradient of
# the whole batch is this sum divided by the number of microbatches, and so torch divides. If the loss is a sum, nothing
# may be divided: `scale_grads=False` in the schedule. Say you have 2 microbatches, whose losses have the gradients 3
# and 5. For a mean the batch has $(3 + 5) / 2 = 4$, for a sum it has 8.

# %% readonly="setup"
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from distlib import Communicator, World, torch_distributed

two = World(2)  # two ranks to try things on


# %% solution="pipeline_step"
def pipeline_step(
    module: torch.nn.Module,
    num_microbatches: int,
    inputs: torch.Tensor | None,
    targets: torch.Tensor | None,
    loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    reduction: str,
) -> list[float] | None:
    """Take one batch forward and backward through a pipeline, by torch's 1F1B schedule.

    Afterwards parameter.grad of every parameter of the stage is the gradient of the loss of the
    whole batch. Before, it is None. No optimizer takes a step. All tensors are float64, on the
    CPU. torch's default process group is open: rank s has stage s, and there are as many stages
    as ranks, perhaps only one.

    Args:
        module: this rank's stage.
        num_microbatches: at least as many as there are ranks; it divides the samples.
        inputs: on the first rank the whole batch, [samples, features]; on the others None.
        targets: on the last rank those of the whole batch; on the others None.
        loss_function: loss_function(outputs, targets) is the loss of a microbatch, shape [].
        reduction: "mean" if a loss is the mean over what it is given, "sum" if it is the sum.
            That of the batch is likewise.

    Returns:
        On the last rank the loss of each microbatch, in their order, as floats; on the others
        None.

    Cost: a message for each microbatch to the next rank, and one to the rank before. Rank s of
        p keeps what p - s microbatches need, and no more.
    """
    ### BEGIN SOLUTION
    stage = PipelineStage(module, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    schedule = Schedule1F1B(
        stage,
        n_microbatches=num_microbatches,
        loss_fn=loss_function,
        scale_grads=reduction == "mean",
    )
    batch = [inputs] if stage.is_first else []
    losses = []
    if stage.is_last:
        schedule.step(*batch, target=targets, losses=losses)
        return [loss.item() for loss in losses]
    schedule.step(*batch)
    return None
    ### END SOLUTION


# %% [markdown]
# **Try it** on two ranks, with two microbatches of one sample. A cell like this one gives no marks. The weights are 1,
# the targets 0, and the loss is the mean of the squares. So the losses are $1^2$ and $3^2$, and by hand the gradient of
# either weight is $(2 \cdot 1 \cdot 1 + 2 \cdot 3 \cdot 3) / 2 = 10$.


# %%
def try_torch(comm: Communicator) -> tuple[list[float] | None, float]:
    module = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
    torch.nn.init.ones_(module.weight)
    samples = torch.tensor([[1.0], [3.0]], dtype=torch.float64)
    given = (samples, None) if comm.rank == 0 else (None, torch.zeros_like(samples))
    with torch_distributed(comm):
        losses = pipeline_step(module, 2, *given, torch.nn.functional.mse_loss, "mean")
    return losses, module.weight.grad.item()


for rank, (losses, gradient) in enumerate(two.run(try_torch)):
    print(f"rank {rank}: losses {losses}, gradient {gradient}")

# %% [markdown]
# **Visible test: 4 points.** It compares losses and gradients with those of a single process, and looks at the messages
# and at how many microbatches a rank keeps at the same time.

# %% test="pipeline_step_visible" points=4
from distlib.exercises import TorchStep, check_pipeline_step

report = check_pipeline_step(
    pipeline_step,
    steps=[
        TorchStep(4, samples=2, features=[3, 4, 2]),
        TorchStep(5, samples=2, features=[2, 5, 4, 3]),
        TorchStep(3, samples=4, features=[2, 3, 5], reduction="sum"),
        TorchStep(4, samples=1, features=[3, 2]),
        TorchStep(6, samples=1, features=[2, 3, 5, 2], loss="absolute error"),
    ],
)
assert [max(result["kept"]) for result in report[1].results] == [3, 2, 1]
assert report[0].results[0]["losses"] is None
assert len(report[0].results[1]["losses"]) == 4
print(report)

# %% [markdown]
# **Hidden test: 5 points.** More ranks and microbatches, other features, both reductions.

# %% test="pipeline_step_hidden" points=5
# The hidden tests of pipeline_step stand here when your work is graded.
### BEGIN HIDDEN TESTS
### What this tests: up to 6 ranks, as many microbatches as ranks and more, other features, mean and sum; drawn sizes.
from distlib.exercises import TorchStep, check_pipeline_step

report = check_pipeline_step(
    pipeline_step,
    steps=[
        TorchStep(5, samples=1, features=[4, 2, 3], reduction="sum"),
        TorchStep(3, samples=3, features=[1, 6, 2, 4]),
        TorchStep(7, samples=2, features=[5, 3], loss="absolute error", reduction="sum"),
        TorchStep(8, samples=3, features=[2, 5, 3, 6, 1, 4, 2]),
        TorchStep(9, samples=2, features=[3, 1, 5, 4], loss="absolute error"),
    ],
    drawn=[2, 3, 4],
    seed=94,
)
assert len(report) == 8
assert [max(result["kept"]) for result in report[3].results] == [6, 5, 4, 3, 2, 1]
assert len(report[4].results[2]["losses"]) == 9
sent = [m.nbytes for m in report[1].trace if m.dtype == "float64" and m.src == 1]
assert sorted(sent) == [3 * 2 * 8] * 3 + [3 * 6 * 8] * 3
### END HIDDEN TESTS

# %% [markdown]
# ## Check everything
#
# This cell runs the tests on your functions, as they are defined now. It shows what passes and what to do next. It
# takes some seconds and gives no marks. In a terminal, `distlib check 09b_faster_pipelines` does the same with the
# saved notebook.

# %% tags=["skip-execution"]
from distlib.classroom import check_exercise

check_exercise("09b_faster_pipelines")

# %%
two.close()

# %% [markdown] text="hand_in"

# %% tags=["skip-execution"]
# from distlib.classroom import hand_in; hand_in("09b_faster_pipelines")
