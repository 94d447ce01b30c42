"""Train the small GPT from the command line, and see what it can do.

python -m distlib.capstone additions                             in this process
python -m distlib.capstone additions --way ddp --ranks 4         on ranks of this machine
torchrun --nproc-per-node 4 -m distlib.capstone additions --way ddp
srun --ntasks 4 python -m distlib.capstone additions --way ddp --checkpoints FOLDER
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from distlib.arguments import check_integer
from distlib.capstone import command_on_ranks
from distlib.capstone.command_on_ranks import CommandOptions, model_of, show_result, task_of
from distlib.capstone.devices import device_here, device_of
from distlib.capstone.gpt import gpt_shape, new_gpt
from distlib.capstone.train_alone import train_alone
from distlib.capstone.ways.train_by import WAYS
from distlib.launch.environment import LaunchError, Placement, read_placement
from distlib.launch.run import Options, launch
from distlib.launch.script import Target


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and show the result. Returns the exit status: 0; 1 if it has failed; 75 if it is to go on in a new job."""
    words = vars(_parser().parse_args(arguments))
    ranks = words.pop("ranks", None)
    options = CommandOptions(**words)
    placement = None
    try:
        placement = read_placement(os.environ, socket.gethostname())
        _check(options, ranks, placement)
        if options.way is None:
            _train_here(options)
            return 0
        return _train_on_ranks(options, ranks, placement)
    except (ValueError, OSError, LaunchError) as error:
        if placement is None or placement.rank == 0:  # all processes say the same
            print(error, file=sys.stderr)
        return 1


def _check(options: CommandOptions, ranks: int | None, placement: Placement | None) -> None:
    """Raises ValueError or OSError, before any rank has started."""
    for name in ("steps", "every", "characters"):
        check_integer("the training", name, getattr(options, name), 1)
    task_of(options)
    model_of(options)
    if options.way is None and (ranks is not None or placement is not None or options.checkpoints):
        raise ValueError(
            f"expected a way of training for ranks and checkpoints, got none: say --way, of {', '.join(WAYS)}"
        )


def _train_here(options: CommandOptions) -> None:
    task = task_of(options)
    shape = gpt_shape(task.characters.vocabulary, task.length, model_of(options))
    model = new_gpt(shape, options.seed).to(device_here())
    count = sum(each.numel() for each in model.parameters())
    print(f"{count:,} parameters on {device_of(model)}; Ctrl+C stops", flush=True)
    try:
        train_alone(model, task, options.steps, every=options.every, on_progress=lambda now: print(now, flush=True))
    except KeyboardInterrupt:
        print("stopped; this is what it has learnt up to here:")
    show_result(options, task, model)


def _train_on_ranks(options: CommandOptions, ranks: int | None, placement: Placement | None) -> int:
    if ranks is None and placement is None:
        ranks = 1
    target = Target(Path(command_on_ranks.__file__), "from_words", (), asdict(options))
    return launch(target, placement, Options(ranks))


def _parser() -> argparse.ArgumentParser:
    """What is not said is left out: `CommandOptions` has its default."""
    parser = argparse.ArgumentParser(
        prog="python -m distlib.capstone", description="Train a small GPT.", argument_default=argparse.SUPPRESS
    )
    parser.add_argument("task", choices=["additions", "text"])
    parser.add_argument("--way", choices=list(WAYS), help="on ranks, by this way; without it, in this process alone")
    parser.add_argument("--ranks", type=int, help="how many on this machine; under torchrun and srun, leave it out")
    parser.add_argument("--checkpoints", metavar="FOLDER", help="written there; what is there already is gone on from")
    parser.add_argument("--file", help="a text of your own, in UTF-8; without it, Python's manual")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--every", type=int, help="steps between two lines of progress, or two checkpoints")
    parser.add_argument("--batch-size", type=int, help="sequences in a batch, of all ranks together")
    parser.add_argument("--features", type=int, help="of each token in the model")
    parser.add_argument("--layers", type=int, help="of the model")
    parser.add_argument("--characters", type=int, help="how many it writes at the end")
    parser.add_argument("--seed", type=int)
    return parser


if __name__ == "__main__":
    sys.exit(main())
