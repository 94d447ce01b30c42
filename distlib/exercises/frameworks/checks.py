"""Exercise 15: trainings and evaluations, ported to Fabric and to Accelerate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import nobody_returned, shown
from distlib.checks.rules.values import holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.frameworks.accelerate_plays import accelerate_training
from distlib.exercises.frameworks.cases import (
    Order,
    Trained,
    TrainingPlan,
    TrainingWay,
    batched_order,
    strided_order,
    train,
    training_case,
)
from distlib.exercises.frameworks.fabric_plays import fabric_training

say = Sentences(__file__)
WAITS = ("waits to", "waits in", "has already returned", "have to make the same collective calls", "receives into")
ERRORS = [
    *((words, say("all_ranks_call")) for words in WAITS),
    ("DistributedSampler is not there", say("own_sampler")),
    ("cannot pickle", say("wrapper_pickled")),
    ("can't be copied, sent", say("wrapper_pickled")),
]
Plan = tuple[int, int, int, int] | tuple[int, int, int, int, int]  # of a TrainingPlan
Mistakes = list[tuple[str, Order, TrainingWay]]  # the name of the sentence, and what it is about

USUAL_NORMS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)

# Torch clips by max_norm / (norm + 1e-6). By hand one leaves that out, and is right.
parameters_alike = partial(is_close, relative=2e-5, absolute=2e-5)


# ── fabric_train ─────────────────────────────────────────────────────────────────────────────────────────────────────


@task("fabric", "model", "optimizer", "loader", "epochs", "accumulate", "max_norm", "path", errors=ERRORS)
def check_fabric_train(draw: Draw, *, trainings: Sequence[Plan], layers: int = 2) -> Iterator[Case]:
    """`function(fabric, model, optimizer, loader, epochs, accumulate, max_norm, path)`: the loop on Fabric.

    `trainings`: of each the ranks, the batches of a rank, the samples of one, the batches of a step, and the epochs.
    `layers`: of the model, 2 or 3.
    """
    for plan in trainings:
        yield training_case(draw, replace(TrainingPlan(*plan), layers=layers), fabric_training, strided_order)


@check_fabric_train.judge
def _(seen: Seen) -> Remarks:
    order, again = strided_order(seen.case.inputs), strided_order(seen.case.inputs, [0] * seen.facts.epochs)
    steps = seen.facts.accumulate
    mistakes = [
        ("not_set_up", order, TrainingWay(averages="never", shares_start=False)),
        ("never_averaged", order, TrainingWay(averages="never")),
        ("rest_divided", order, TrainingWay(divides_rest=True)),
        ("not_divided", order, TrainingWay(scale=steps)),
        ("divided_twice", order, TrainingWay(scale=1 / steps)),
        ("divided_by_ranks", order, TrainingWay(scale=1 / seen.size)),
        ("same_order", again, TrainingWay()),
        ("rest_left", order, TrainingWay(steps="whole")),
        ("step_in_each_batch", order, TrainingWay(steps="each")),
        ("zeroed_in_each_batch", order, TrainingWay(zeroes="batch")),
        *(("clipped_by_value", order, TrainingWay(clips=each)) for each in ("never", "value")),
        *_common_mistakes(seen, strided_order),
    ]
    yield from _judge_training(seen, order, mistakes, say("as_before"), say("sync_fabric"))
    yield from _judge_file(seen)


# ── accelerate_train ─────────────────────────────────────────────────────────────────────────────────────────────────


@task("accelerator", "model", "optimizer", "loader", "epochs", "max_norm", "path", errors=ERRORS)
def check_accelerate_train(draw: Draw, *, trainings: Sequence[Plan], layers: int = 2) -> Iterator[Case]:
    """`function(accelerator, model, optimizer, loader, epochs, max_norm, path)`: the loop on Accelerate.

    `trainings`, `layers`: as of `check_fabric_train`.
    """
    for plan in trainings:
        yield training_case(draw, replace(TrainingPlan(*plan), layers=layers), accelerate_training, batched_order)


@check_accelerate_train.judge
def _(seen: Seen) -> Remarks:
    order, steps = batched_order(seen.case.inputs), seen.facts.accumulate
    mistakes = [
        ("not_prepared", order, TrainingWay(averages="never", shares_start=False)),
        ("never_prepared", order, TrainingWay(averages="never")),
        ("divided_by_nobody", order, TrainingWay(scale=steps)),
        ("divided_for_you", order, TrainingWay(scale=1 / steps)),
        ("divided_by_ranks", order, TrainingWay(scale=1 / seen.size)),
        ("rest_left", order, TrainingWay(steps="whole")),
        ("rest_left", order, TrainingWay(steps="whole", zeroes="group")),
        ("step_in_each_batch", order, TrainingWay(steps="each")),
        ("plain_optimizer", order, TrainingWay(steps="each", averages="group")),
        ("zeroed_too_early", order, TrainingWay(zeroes="batch")),
        *_common_mistakes(seen, batched_order),
    ]
    yield from _judge_training(seen, order, mistakes, say("never_the_last_batch"), say("sync_accelerate"))
    yield from _judge_file(seen)


# ── what both have in common ─────────────────────────────────────────────────────────────────────────────────────────


def _common_mistakes(seen: Seen, order_of: Callable[..., Order]) -> Mistakes:
    order = order_of(seen.case.inputs)
    epochs = range(seen.facts.epochs)
    later = [order_of(seen.case.inputs, [step * epoch + 1 for epoch in epochs]) for step in (1, 2)]
    return [
        *(("gone_through_besides", each, TrainingWay()) for each in later),
        ("rest_not_clipped", order, TrainingWay(clips="whole")),
        ("not_clipped", order, TrainingWay(clips="never")),
        ("clipped_in_each_batch", order, TrainingWay(clips="each")),
        ("clipped_before", order, TrainingWay(clips="own")),
        ("never_zeroed", order, TrainingWay(zeroes="never")),
        *(("norm_of_its_own", order, TrainingWay(max_norm=each)) for each in USUAL_NORMS),
    ]


def _judge_training(seen: Seen, order: Order, mistakes: Mistakes, as_before: str, why_often: str) -> Remarks:
    """Passes, parameters, losses and messages.

    Args:
        as_before: what to say of parameters that have not changed.
        why_often: the cause of too many messages.
    """
    plan: TrainingPlan = seen.facts
    right = train(seen.case, order)
    for rank in seen.ranks:
        passes, wanted = len(seen.played[rank].gates), plan.epochs * plan.batches
        if passes != wanted:
            cause = say(_why_so_many(passes, plan))
            yield say.remark("passes", rank=rank, found=count(passes, "time"), wanted=wanted, cause=cause)
    for rank in reversed(seen.ranks):  # what rank 0 has learned alone began with the right parameters
        yield from _parameters(seen, rank, right, mistakes, as_before)
    yield nobody_returned([told["returned"] for told in seen.results], "the losses of the epochs")
    for rank in seen.ranks:
        yield _losses(seen, rank, right)
    yield _averages(seen, plan, why_often)


def _why_so_many(passes: int, plan: TrainingPlan) -> str:
    if passes == plan.epochs * plan.batches * plan.ranks:
        return "all_data_everywhere"
    return "no_pass" if passes == 0 else "one_pass_a_batch" if passes % plan.batches else "one_epoch"


def _parameters(seen: Seen, rank: int, right: Trained, mistakes: Mistakes, as_before: str) -> Remarks:
    for name, expected in right.parameters[rank].items():
        found = seen[rank]["parameters"][name]
        if parameters_alike(found, expected):
            continue
        wrong = {as_before: [seen.case.inputs[each]["parameters"][name] for each in (rank, 0)]}
        for mistake, order, way in mistakes:
            wrong.setdefault(say(mistake), []).append(train(seen.case, order, way).parameters[rank][name])
        what = f"on rank {rank} the parameter {name}"
        yield holds(what, found, expected, wrong, same=parameters_alike, otherwise=say("parameters"))


def _losses(seen: Seen, rank: int, right: Trained) -> Remark | None:
    """Whether a rank has returned the mean loss of each epoch."""
    found, losses = seen[rank]["returned"], right.losses
    if isinstance(found, torch.Tensor) and found.dim() == 1:
        found = list(found)
    numbers = [_number(each) for each in found] if isinstance(found, list | tuple) else [found]
    wanted = losses.mean((1, 2)).tolist()
    if _are_close(numbers, wanted):
        return None
    accumulate = seen.facts.accumulate
    mistakes = {
        "own_losses": losses[:, rank].mean(1),
        "losses_added_over_ranks": losses.mean(2).sum(1),
        "losses_added_over_batches": losses.sum(2).mean(1),
        "losses_added": losses.sum((1, 2)),
        "last_loss": losses[:, :, -1].mean(1),
        "losses_divided": losses.mean((1, 2)) / accumulate,
        "own_last_loss": losses[:, rank, -1],
    }
    fitting = [name for name, each in mistakes.items() if _are_close(numbers, each.tolist())]
    is_list = len(numbers) == len(wanted) and all(isinstance(each, int | float) for each in numbers)
    cause = fitting[0] if fitting else "mean_losses" if is_list else "list_of_losses"
    lines = (f"expected {_shown(wanted)}", f"found    {_shown(numbers) if is_list else shown(found)}")
    return say.remark("losses", *lines, rank=rank, cause=say(cause))


def _number(value: Any) -> Any:
    """The number in a tensor: the text does not say that one of Python's is due."""
    return value.item() if isinstance(value, torch.Tensor) and value.numel() == 1 else value


def _shown(numbers: Sequence[Any]) -> str:
    texts = [f"{number:.6g}" if isinstance(number, float) else shown(number) for number in numbers]
    return f"[{', '.join(texts)}]"


def _are_close(numbers: Sequence[Any], wanted: Sequence[float]) -> bool:
    """Five digits: a Python number becomes float32 in some of the frameworks' calls."""
    are_numbers = len(numbers) == len(wanted) and all(isinstance(each, int | float) for each in numbers)
    return are_numbers and all(abs(a - b) <= 1e-5 * abs(b) for a, b in zip(numbers, wanted, strict=True))


def _averages(seen: Seen, plan: TrainingPlan, why_often: str) -> Remark | None:
    """Gradients travel once in each step, all in one message, or parameter by parameter.

    The last rank sends nothing else of these shapes: the parameters come from rank 0.
    """
    last, parameters = seen.size - 1, seen.case.inputs[0]["parameters"]
    shapes = (sum(each.numel() for each in parameters.values()),), tuple(parameters["first.weight"].shape)
    sent = sum(message.shape in shapes and message.src == last for message in seen.trace)
    found, steps = sent // last, plan.epochs * plan.steps
    if found <= steps:
        return None
    return say.remark("averaged_often", found=count(found, "time"), steps=count(steps, "step"), cause=why_often)


def _judge_file(seen: Seen) -> Remarks:
    """Rank 0 has written the model, with its own names; and no other rank anything."""
    files: list[Any] = [told["saved"] for told in seen.results]
    if files[0] is None:
        yield say.remark("no_file")
        return
    if not isinstance(files[0], Mapping) or not isinstance(files[0].get("model"), Mapping):
        yield say.remark("file_of_another_kind", found=_kind(files[0]))
        return
    saved, parameters = files[0]["model"], seen[0]["parameters"]
    if list(saved) != list(parameters):
        found = next((name for name in saved if name not in parameters), "")
        cause = say("name_of_wrapper" if str(found).endswith(tuple(parameters)) and found else "name_of_model")
        yield say.remark("file_names", found=shown(list(saved)), wanted=shown(list(parameters)), cause=cause)
        return
    for name, parameter in parameters.items():
        before = {say("saved_early"): seen.case.inputs[0]["parameters"][name]}
        yield holds(f"in the file, {name}", saved[name], parameter, before, same=parameters_alike)
    for rank in seen.ranks[1:]:
        if files[rank] is not None:
            yield say.remark("every_rank_writes", rank=rank)


def _kind(found: Any) -> str:
    if isinstance(found, Mapping):
        return f"a dict of {', '.join(map(repr, list(found)[:4]))}"
    return found if isinstance(found, str) else f"a {type(found).__name__}"
