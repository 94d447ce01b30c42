"""The checks of DataParallel's stages: what rank 0 hands out and collects, and that nothing else is sent.

Values are whole numbers, so that sums are exact in whatever order they are made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch

from distlib.checks.models import Gradients
from distlib.checks.plays.gradients import after_backward
from distlib.checks.plays.master import collect, copy_model, split
from distlib.checks.remark import Remark
from distlib.checks.rules.values import compared, is_equal
from distlib.grading.case import count, dtype_name
from distlib.grading.checks import name_of
from distlib.grading.master_causes import cause_of_copy, cause_of_outputs, cause_of_part, cause_of_sum
from distlib.grading.master_messages import NOBODY_ELSE, Way, judge_ways
from distlib.grading.scenario_case import Part, ScenarioCase
from distlib.grading.scenario_checks import run_scenarios, seed_for
from distlib.grading.scenario_report import ScenarioReport
from distlib.grading.scene import Scene
from distlib.partition import chunk_lengths

_NOTHING_BACK = (
    "gradients go to rank 0, and nothing comes back: only rank 0 has the optimizer, and the next step sends the new "
    "model out."
)
_ERRORS = (
    ("wants to", "rank 0 talks to the ranks 1 to comm.world_size - 1, and not to itself. With one rank it talks to "
     "nobody."),
    ("NoneType", "a parameter that needs no gradient has none: its .grad is None, on every rank. Leave it out."),
)  # fmt: skip


# ── split_batch ──────────────────────────────────────────────────────────────────────────────────────────────────────


def check_split_batch(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    batch_sizes: Sequence[int],
    row: Sequence[int] = (2,),
    dtype: torch.dtype = torch.float32,
    seed: int = 1,
) -> ScenarioReport:
    """Check `function(comm, batch)`: it returns this rank's rows of rank 0's batch, cut as torch.tensor_split does.

    Args:
        batch_sizes: numbers of rows; those below a number of ranks are left out there.
        row: the shape of one row.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name, seed = name_of(function, ("comm", "batch")), seed_for(function, seed)
    sizes = [(ranks, rows) for rows in batch_sizes for ranks in world_sizes if rows >= ranks]
    cases = [_split_case(name, ranks, (rows, *row), dtype, seed) for ranks, rows in sizes]
    return run_scenarios(function, name, cases, _judge_split, causes=_ERRORS)


def _split_case(name: str, ranks: int, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> ScenarioCase:
    draw = random.Random(f"{seed} {ranks} {shape}")
    inputs = [{"batch": whole_numbers(draw, shape, dtype)} for _ in range(ranks)]
    title = f"{name} on {count(ranks, 'rank')}, a batch of {list(shape)} {dtype_name(dtype)}"
    return ScenarioCase(title, Part(split, inputs, seed))


def _judge_split(case: ScenarioCase, scene: Scene) -> Remark | None:
    batches = [inputs["batch"] for inputs in case.part.inputs]
    parts = batches[0].tensor_split(case.world_size)
    for rank, result in enumerate(scene.results):
        if not is_equal(result["part"], parts[rank]):
            seen = f"on rank {rank} the part is wrong."
            return Remark(seen, compared(parts[rank], result["part"]), cause_of_part(result["part"], batches, rank))
    if not is_equal(scene.results[0]["batch"], batches[0]):
        return Remark("the batch on rank 0 has changed.", cause="return the part, and leave the batch as it is.")
    whole = {batches[0].nbytes: "the whole batch goes to every rank. Send each rank its own rows."}
    ways = [Way(0, rank, parts[rank].nbytes, 1, "its rows", whole) for rank in range(1, case.world_size)]
    return judge_ways(scene.trace, ways, NOBODY_ELSE)


# ── replicate ────────────────────────────────────────────────────────────────────────────────────────────────────────


def check_replicate(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    buffers: bool = False,
    frozen: bool = False,
    dtype: torch.dtype = torch.float32,
    seed: int = 1,
) -> ScenarioReport:
    """Check `function(comm, model)`: afterwards all parameters and buffers are those of rank 0, and nothing else moved.

    Args:
        buffers: whether the model has buffers, one of them of integers.
        frozen: whether one of its parameters needs no gradient.
        dtype: of the parameters.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name, seed = name_of(function, ("comm", "model")), seed_for(function, seed)
    cases = [_copy_case(name, ranks, buffers, frozen, dtype, seed) for ranks in world_sizes]
    return run_scenarios(function, name, cases, _judge_copy, causes=_ERRORS)


def _copy_case(name: str, ranks: int, buffers: bool, frozen: bool, dtype: torch.dtype, seed: int) -> ScenarioCase:
    draw = random.Random(f"{seed} {ranks} {buffers}")
    inputs = [
        {
            "parameters": {
                "0.weight": whole_numbers(draw, (3, 2), dtype),
                "0.bias": whole_numbers(draw, (3,), dtype),
                "1.weight": whole_numbers(draw, (2, 3), dtype),
            },
            "buffers": {
                "1.mean": whole_numbers(draw, (4,), dtype),
                "1.steps": whole_numbers(draw, (), torch.int64),
            } if buffers else {},
            "frozen": ["0.bias"] if frozen else [],
        }
        for _ in range(ranks)
    ]  # fmt: skip
    notes = ", with buffers" * buffers + ", one parameter frozen" * frozen
    return ScenarioCase(f"{name} on {count(ranks, 'rank')}{notes}", Part(copy_model, inputs, seed))


def _judge_copy(case: ScenarioCase, scene: Scene) -> Remark | None:
    models = [{**inputs["parameters"], **inputs["buffers"]} for inputs in case.part.inputs]
    trained = [name for name in case.part.inputs[0]["parameters"] if name not in case.part.inputs[0]["frozen"]]
    for rank, result in enumerate(scene.results):
        for name, wanted in models[0].items():
            found = result["tensors"].get(name)
            if not is_equal(found, wanted):
                seen = f"on rank {rank}, {name} is not that of rank 0."
                cause = cause_of_copy(
                    found, [model[name] for model in models], rank, name in case.part.inputs[0]["buffers"]
                )
                return Remark(seen, compared(wanted, found), cause)
        if sorted(result["trained"]) != sorted(trained):
            return Remark(
                f"on rank {rank} other parameters require a gradient now: {', '.join(result['trained'])}.",
                cause="copy the values, and leave requires_grad as it is.",
            )
    nbytes, number = sum(tensor.nbytes for tensor in models[0].values()), len(models[0])
    ways = [Way(0, rank, nbytes, number, "every parameter and buffer") for rank in range(1, case.world_size)]
    return judge_ways(scene.trace, ways, NOBODY_ELSE)


# ── gather_outputs ───────────────────────────────────────────────────────────────────────────────────────────────────


def check_gather_outputs(
    function: Callable[..., object],
    *,
    world_sizes: Sequence[int],
    batch_sizes: Sequence[int],
    row: Sequence[int] = (2,),
    dtype: torch.dtype = torch.float32,
    seed: int = 1,
) -> ScenarioReport:
    """Check `function(comm, output, batch_size)`: rank 0 gets all outputs in the order of the ranks, the others None.

    Args:
        batch_sizes: numbers of rows of all ranks together; those below a number of ranks are left out there.
        row: the shape of one row.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name, seed = name_of(function, ("comm", "output", "batch_size")), seed_for(function, seed)
    sizes = [(ranks, rows) for rows in batch_sizes for ranks in world_sizes if rows >= ranks]
    cases = [_collect_case(name, ranks, rows, tuple(row), dtype, seed) for ranks, rows in sizes]
    return run_scenarios(function, name, cases, _judge_outputs, causes=_ERRORS)


def _collect_case(
    name: str, ranks: int, rows: int, row: tuple[int, ...], dtype: torch.dtype, seed: int
) -> ScenarioCase:
    draw = random.Random(f"{seed} {ranks} {rows}")
    lengths = chunk_lengths(rows, ranks)
    inputs = [{"output": whole_numbers(draw, (length, *row), dtype), "batch_size": rows} for length in lengths]
    title = f"{name} on {count(ranks, 'rank')}, {rows} outputs of {list(row)} {dtype_name(dtype)}"
    return ScenarioCase(title, Part(collect, inputs, seed))


def _judge_outputs(case: ScenarioCase, scene: Scene) -> Remark | None:
    parts = [inputs["output"] for inputs in case.part.inputs]
    wanted, found = torch.cat(parts), scene.results[0]["outputs"]
    if not is_equal(found, wanted):
        return Remark("rank 0 does not have all outputs.", compared(wanted, found), cause_of_outputs(found, parts))
    for rank, result in enumerate(scene.results):
        if rank and result["outputs"] is not None:
            return Remark(
                f"rank {rank} returns something, and should return None.", cause="only rank 0 has all outputs."
            )
        if not is_equal(result["output"], parts[rank]):
            return Remark(f"the output of rank {rank} has changed.", cause="put them together in a new tensor.")
    ways = [Way(rank, 0, parts[rank].nbytes, 1, "its output") for rank in range(1, case.world_size)]
    return judge_ways(scene.trace, ways, "outputs go to rank 0, and only there. The loss is computed on rank 0.")


# ── reduce_gradients ─────────────────────────────────────────────────────────────────────────────────────────────────


def check_reduce_gradients(
    function: Callable[..., object], *, world_sizes: Sequence[int], models: Sequence[Gradients], seed: int = 1
) -> ScenarioReport:
    """Check `function(comm, model)`: afterwards the gradients of rank 0 are the sums over all ranks.

    Args:
        models: what the models are like. A frozen parameter has no gradient.

    Raises:
        CheckFailed: what is wrong in the first case that fails.
    """
    name, seed = name_of(function, ("comm", "model")), seed_for(function, seed)
    cases = [_sum_case(name, ranks, model, seed) for model in models for ranks in world_sizes]
    return run_scenarios(function, name, cases, _judge_sums, causes=_ERRORS)


def _sum_case(name: str, ranks: int, model: Gradients, seed: int) -> ScenarioCase:
    draw = random.Random(f"{seed} {ranks} {model}")
    weights = [whole_numbers(draw, tuple(shape), model.dtype) for shape in model.shapes]
    inputs = [
        {
            "weights": weights,
            "gradients": [
                whole_numbers(draw, tuple(shape), model.dtype) if number in model.trained else None
                for number, shape in enumerate(model.shapes)
            ],
            "frozen": list(model.frozen),
        }
        for _ in range(ranks)
    ]
    title = f"{name} on {count(ranks, 'rank')}, {count(len(model.shapes), 'parameter')}"
    return ScenarioCase(title + ", one frozen" * bool(model.frozen), Part(after_backward, inputs, seed), expected=model)


def _judge_sums(case: ScenarioCase, scene: Scene) -> Remark | None:
    model: Gradients = case.expected
    for number in range(len(model.shapes)):
        given = [inputs["gradients"][number] for inputs in case.part.inputs]
        found = scene.results[0]["gradients"][number]
        wanted = sum(given) if number in model.trained else None
        if not is_equal(found, wanted):
            seen = f"on rank 0, the gradient of parameter {number} is not the sum over the ranks."
            return Remark(seen, compared(wanted, found), cause_of_sum(found, given))
    for rank, result in enumerate(scene.results):
        if not all(map(is_equal, result["weights"], case.part.inputs[rank]["weights"])):
            cause = "add up the gradients, parameter.grad, and leave the parameters to the optimizer."
            return Remark(f"on rank {rank}, a parameter itself has changed.", cause=cause)
    number = len(model.trained)
    ways = [Way(rank, 0, model.nbytes, number, "all its gradients") for rank in range(1, case.world_size)]
    return judge_ways(scene.trace, ways, _NOTHING_BACK)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def whole_numbers(draw: random.Random, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Random whole numbers from -9 to 9, without 0."""
    numbers = [draw.choice((-1, 1)) * draw.randint(1, 9) for _ in range(torch.Size(shape).numel())]
    return torch.tensor(numbers, dtype=dtype).reshape(shape)
