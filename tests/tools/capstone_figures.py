"""How many steps the capstone's GPT needs, in one process and by local steps: the figures of "In short" in lesson 19.

    python -m tests.tools.capstone_figures              two seeds, in 20 minutes
    python -m tests.tools.capstone_figures --seeds 3

DDP, the mesh and the other exact ways need as many steps as one process, to rounding. float32; an average every fourth
step; eight ranks. A loss is reached where all later ones are below it, too.
"""

from __future__ import annotations

import argparse

import torch

from distlib import Cluster, Link, SimulatedWorld
from distlib.capstone import Additions
from distlib.capstone.ways import CapstonePlan, train_by
from distlib.training.mesh import SmallTransformer

MODEL = SmallTransformer(vocabulary=16, features=32, hidden=128, heads=8, num_layers=6)  # as in the lesson
TARGETS = (1.7, 1.0, 0.8)
STEPS = 700


def steps_to(losses: list[float], target: float) -> int:
    """How many steps until the loss stays at most `target`."""
    return 1 + max((step for step, loss in enumerate(losses, 1) if loss > target), default=0)


def losses_of(way: str, ranks: int, seed: int, **options: int) -> list[float]:
    """The loss of each step of a run."""
    plan = CapstonePlan(Additions(batch_size=64), MODEL, seed=seed, dtype=torch.float32)
    cluster = Cluster(1, ranks, Link(2e-6, 50e9))
    world = SimulatedWorld(ranks, cluster, record=False, contexts="threads")
    return list(world.run(train_by, way, plan, STEPS, **options)[0].losses)


def main() -> None:
    """Print a line for each seed and loss."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    torch.set_num_threads(1)
    for seed in range(parser.parse_args().seeds):
        alone = losses_of("alone", 1, seed)
        local = losses_of("local_sgd", 8, seed, round_steps=4)
        for target in TARGETS:
            one, other = steps_to(alone, target), steps_to(local, target)
            print(f"seed {seed}, loss {target}: one process {one} steps, local steps {other}, {other / one:.2f} times")


if __name__ == "__main__":
    main()
