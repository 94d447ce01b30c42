"""`python -m distlib.capstone additions` or `text`: train the small GPT in this process, and see what it can do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from distlib.capstone.additions import Additions
from distlib.capstone.gpt import gpt_shape, new_gpt, write
from distlib.capstone.pieces_of_text import Texts, manual, read_text
from distlib.capstone.train_alone import train_alone

_EVERY = 25  # steps between two lines of progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, and show the result. Returns the exit status."""
    options = _options(arguments)
    try:
        _run(_task(options), options)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(task: Additions | Texts, options: argparse.Namespace) -> None:
    model = new_gpt(gpt_shape(task.characters.vocabulary, task.length), options.seed)
    print(f"{sum(each.numel() for each in model.parameters()):,} parameters; Ctrl+C stops", flush=True)
    try:
        train_alone(model, task, options.steps, every=_EVERY, on_progress=lambda now: print(now, flush=True))
    except KeyboardInterrupt:
        print("stopped; this is what it has learnt up to here:")
    if isinstance(task, Additions):
        print(f"{task.accuracy(model):.1%} of {len(task.held_out):,} sums right that it has never seen")
    else:
        print(write(model, task.characters, task.beginning, options.characters, window=task.length, seed=options.seed))


def _task(options: argparse.Namespace) -> Additions | Texts:
    if options.task == "additions":
        return Additions(seed=options.seed)
    return Texts(read_text(options.file) if options.file else manual(), seed=options.seed)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m distlib.capstone", description="Train a small GPT.")
    parser.add_argument("task", choices=["additions", "text"])
    parser.add_argument("--file", help="a text of your own, in UTF-8; without it, Python's manual")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--characters", type=int, default=600, help="how many it writes at the end")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
