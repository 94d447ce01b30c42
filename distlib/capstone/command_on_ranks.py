"""The training of the command line, on one rank: progress, checkpoints, and what the model can do in the end.

    torchrun … -m distlib.capstone additions --way ddp --checkpoints FOLDER
    rank 0    steps 0 to 24, a line of progress, a checkpoint │ steps 25 to 49, … │ …
    rank 1    the same steps, and a checkpoint of its own     │ …

Each rank writes what it keeps, since with most ways no other one has it. So a training goes on with as many ranks as it
began with, from the last step of which all of them have a checkpoint (lesson 16b).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from distlib.capstone.additions import Additions
from distlib.capstone.gpt import SHAPE, new_gpt, write
from distlib.capstone.pieces_of_text import Texts, manual, read_text
from distlib.capstone.train_alone import TrainingProgress
from distlib.capstone.ways.capstone_plan import CapstonePlan
from distlib.capstone.ways.train_by import way_named
from distlib.capstone.ways.way_on_rank import WayOnRank, Weights, sum_of_shares
from distlib.communicator import Communicator
from distlib.launch.checkpoints import Checkpoints
from distlib.launch.notice import REQUEUE, ends_soon
from distlib.training.mesh import SmallTransformer


@dataclass(frozen=True)
class CommandOptions:
    """What the command line says.

    Attributes:
        task: "additions" or "text".
        file: a text of one's own; None: Python's manual.
        way: one of the nine ways; None: in the process of the command.
        steps: of the training.
        every: steps between two lines of progress, and between two checkpoints.
        checkpoints: a folder for them; None: none are written.
        characters: how many are written in the end.
        seed: of the weights and the batches.
        batch_size: sequences of a batch, of all ranks together; None: what the task says.
        features: of each token in the model; its hidden features are four times as many.
        layers: of the model.
    """

    task: str
    file: str | None = None
    way: str | None = None
    steps: int = 300
    every: int = 25
    checkpoints: str | None = None
    characters: int = 600
    seed: int = 0
    batch_size: int | None = None
    features: int = SHAPE.features
    layers: int = SHAPE.num_layers


def task_of(options: CommandOptions) -> Additions | Texts:
    """What is learnt.

    Raises:
        ValueError, OSError: a file that is no text, or none that can be learnt.
    """
    sizes = {} if options.batch_size is None else {"batch_size": options.batch_size}
    if options.task == "additions":
        return Additions(seed=options.seed, **sizes)
    return Texts(read_text(options.file) if options.file else manual(), seed=options.seed, **sizes)


def model_of(options: CommandOptions) -> SmallTransformer:
    """What the model is like. Raises ValueError for sizes that can't be."""
    features = options.features
    if features % SHAPE.heads:
        raise ValueError(f"expected features that {SHAPE.heads} heads can share, got {features}")
    return replace(SHAPE, features=features, hidden=4 * features, num_layers=options.layers)


def train_on_rank(comm: Communicator, options: CommandOptions) -> int | None:
    """Train, from the last checkpoint on. Returns REQUEUE if the job is about to end before the training has."""
    assert options.way is not None
    torch.set_num_threads(1)
    task = task_of(options)
    plan = CapstonePlan(task, model_of(options), seed=options.seed)
    mine = way_named(options.way)(comm, plan)
    checkpoints, done = _checkpoints(comm, options), 0
    if checkpoints is not None:
        done, state = checkpoints.resume()
        if state is not None:
            _go_on(comm, mine, options, state, done)
    for steps in _blocks(comm, mine, options, plan, done):
        if checkpoints is not None:
            checkpoints.save(steps.stop, {"way": mine.state(), "of": _settings(options)})
            if steps.stop < options.steps and ends_soon(comm):
                return REQUEUE
    weights = mine.whole()
    if comm.rank == 0:
        show_result(options, task, _model_of(plan, weights))
    return None


def show_result(options: CommandOptions, task: Additions | Texts, model: torch.nn.Module) -> None:
    """Print what a model can do."""
    if isinstance(task, Additions):
        print(f"of {len(task.held_out):,} sums that it has never seen, {task.accuracy(model):.1%} are right")
    else:
        print(write(model, task.characters, task.beginning, options.characters, window=task.length, seed=options.seed))


def _blocks(
    comm: Communicator, mine: WayOnRank, options: CommandOptions, plan: CapstonePlan, done: int
) -> Iterator[range]:
    """Train some steps at a time, up to the end, and say how far it is; yields their numbers."""
    task, began, first = plan.task, time.perf_counter(), done
    while done < options.steps:
        steps = range(done, min(done + options.every, options.steps))
        losses = sum_of_shares(comm, mine.train(steps))
        done, weights = steps.stop, mine.whole()
        if comm.rank == 0:
            tokens_per_second = (done - first) * task.batch_size * task.length / (time.perf_counter() - began)
            sample = task.sample(_model_of(plan, weights))
            print(TrainingProgress(done, losses[-1], tokens_per_second, sample), flush=True)
        yield steps


def _model_of(plan: CapstonePlan, weights: Weights) -> torch.nn.Module:
    model = new_gpt(plan.shape)
    model.load_state_dict(weights)
    return model


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _checkpoints(comm: Communicator, options: CommandOptions) -> Checkpoints | None:
    if options.checkpoints is None:
        return None
    folder = Path(options.checkpoints)
    ranks = {int(path.name.split("-")[-1]) for path in folder.glob("rank-*-of-*")}
    if ranks and comm.world_size not in ranks:
        raise ValueError(
            f"expected {' or '.join(map(str, sorted(ranks)))} ranks, with which the checkpoints in {folder} were "
            f"written, got {comm.world_size}: start as many, or take an empty folder"
        )
    return Checkpoints(comm, folder / f"rank-{comm.rank}-of-{comm.world_size}", writes=True)


def _settings(options: CommandOptions) -> dict[str, Any]:
    """What must be the same when a training goes on."""
    return {
        name: getattr(options, name)
        for name in ("task", "file", "way", "every", "seed", "batch_size", "features", "layers")
    }


def _go_on(comm: Communicator, mine: WayOnRank, options: CommandOptions, state: dict[str, Any], done: int) -> None:
    wanted, given = state["of"], _settings(options)
    for name, value in wanted.items():
        if given[name] != value:
            raise ValueError(
                f"expected {name} {value}, as of the checkpoints in {options.checkpoints}, got {given[name]}: "
                "leave it as it was, or take an empty folder"
            )
    mine.load(state["way"])
    if comm.rank == 0:
        print(f"goes on after step {done}", flush=True)


def from_words(comm: Communicator, **words: Any) -> int | None:
    """`train_on_rank`, with the options by name: what `distlib launch` can hand over."""
    return train_on_rank(comm, CommandOptions(**words))
