"""What a notebook in an allocation does while node n2 comes to an end; run by test_slurm and the benchmarks.

python slurm_lost_node.py DIRECTORY [--once]

Prints lines of JSON: when the ranks compute; what it is told; what the next run brings, unless there is to be none.
"""

import json
import sys
import time
from pathlib import Path

import torch

from distlib import PeerLost, all_reduce
from distlib.communicator import Communicator
from distlib.launch.environment import LaunchError
from distlib.launch.slurm_world import SlurmWorld


def compute(comm: Communicator) -> None:
    """All-reduces for ever, most of them inside gloo."""
    print("computing")
    while True:
        all_reduce(comm, torch.zeros(300_000), algorithm="ring")


def say(**values: object) -> None:
    """A line for the one that has started this. `at`: the time, by the clock that all processes share."""
    print(json.dumps({"at": time.monotonic(), **values}), flush=True)


came: list[int] = []


def on_output(rank: int, stream: str, text: str) -> None:
    """What a rank prints."""
    came.append(rank)
    if len(came) == world.world_size:
        say(computing=sorted(came))


world = SlurmWorld(2, directory=Path(sys.argv[1]), patience=200, on_output=on_output)
try:
    world.run(compute)
except PeerLost as error:
    say(told="\n".join(error._render_traceback_()), lost=error.lost)
if "--once" in sys.argv:
    sys.exit()
try:
    say(then=world.run(lambda comm: comm.rank))
except LaunchError as error:
    say(then=str(error))
world.close()
say(closed=True)
