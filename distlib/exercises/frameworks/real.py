"""A port of exercise 15 on the real framework: the same function, unchanged, on two processes. Not graded.

    try_on_the_real_one(fabric_train)        prints what came of it, next to what came of it on the small Fabric

The course does not need the frameworks. Where `make frameworks` has installed them, these processes run in that
environment, in a network and a home of their own, as the programs of lesson 15 do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import cloudpickle
import torch

from distlib.checks.case import Case
from distlib.checks.seen import Played, Seen
from distlib.checks.task import Draw, Task
from distlib.exercises.frameworks import real_rank
from distlib.exercises.frameworks.checks import check_accelerate_train, check_fabric_train
from distlib.exercises.frameworks.evaluations import check_accelerate_evaluate, check_fabric_evaluate
from distlib.frameworks import ProcessTimeout
from distlib.trace import Trace
from distlib.trainers.environment_of_frameworks import distribution_of
from distlib.trainers.run_command import run_text

SECONDS = 120.0
_LINES = 12  # of an error that are shown


class RealOneFailed(Exception):
    """The real framework is not there, or its processes have ended with an error."""


@dataclass(frozen=True)
class Port:
    """A function of the exercise, and what it is tried with.

    Attributes:
        package: the framework's, as it is imported.
        task: its check.
        options: of the check's cases.
    """

    package: str
    task: Task
    options: dict[str, Any]

    def case(self, seed: int = 1) -> Case:
        """What is played, on two ranks."""
        (case,) = self.task.cases(Draw(seed), **self.options)
        return case


PORTS = {
    "fabric_train": Port("lightning_fabric", check_fabric_train, {"trainings": [(2, 5, 3, 2)]}),
    "fabric_evaluate": Port("lightning_fabric", check_fabric_evaluate, {"evaluations": [(2, 11, 2)]}),
    "accelerate_train": Port("accelerate", check_accelerate_train, {"trainings": [(2, 5, 3, 2)]}),
    "accelerate_evaluate": Port("accelerate", check_accelerate_evaluate, {"evaluations": [(2, 11, 2)]}),
}


def installed_as(package: str) -> metadata.Distribution | None:
    """What pip has installed to bring a framework: lightning-fabric, or lightning, which has Fabric in it."""
    return distribution_of(package) or distribution_of(package.partition("_")[0])


def run_on_the_real_one(function: Callable[..., Any], case: Case, package: str) -> Seen:
    """Play a case on processes of torchrun, one for each rank. There are no messages in what was seen.

    Raises:
        RealOneFailed: the framework is not there, or a process has failed, or they are not done after two minutes.
    """
    if installed_as(package) is None:
        raise RealOneFailed(
            f"{package} is not installed. The exercise does not need it; `make frameworks` installs it."
        )
    job = cloudpickle.dumps({"function": function, "part": case.part, "package": package})
    program = f"from {real_rank.__name__} import play\n\nplay({job!r})\n"
    try:
        ran = run_text(program, f"torchrun --nproc-per-node {case.world_size} train.py", seconds=SECONDS)
    except ProcessTimeout:
        raise RealOneFailed(f"not done after {SECONDS:.0f} s. Does only one rank make a call of all ranks?") from None
    if ran.status:
        own = [line for line in ran.lines if line.startswith("[rank")] or ran.lines  # else torchrun's words come last
        raise RealOneFailed("\n".join(["a process has failed:", *own[-_LINES:]]))
    results = [pickle.loads(ran.files[real_rank.result_of(rank)]) for rank in range(case.world_size)]
    return Seen(case, [Played(result, gates) for result, gates in results], Trace(case.world_size, []), False)


def run_on_the_small_one(function: Callable[..., Any], case: Case, task: Task) -> Seen:
    """Play a case on simulated ranks.

    Raises:
        RankError: what went wrong there.
    """
    seen = task.venues(function, case.full_title)[0].play(case, SECONDS, True)
    if seen.error:
        raise seen.error
    return seen


def try_on_the_real_one(function: Callable[..., Any]) -> None:
    """Print what a function of this exercise gives on two processes of the real framework, and on the small one."""
    port = PORTS[function.__name__]
    case = port.case()
    try:
        real, small = run_on_the_real_one(function, case, port.package), run_on_the_small_one(function, case, port.task)
    except RealOneFailed as error:
        print(error)
        return
    found = installed_as(port.package)
    assert found is not None, "it has just run"
    print(f"{found.metadata['Name']} {found.version}, two processes: returned {real[0]['returned']}")
    print(f"the small one, two simulated ranks: returned {small[0]['returned']}")
    if "parameters" in real[0]:
        pairs = [(real[0]["parameters"][name], each) for name, each in small[0]["parameters"].items()]
        print(f"parameters differ by {max(float((torch.as_tensor(a) - b).abs().max()) for a, b in pairs):.1g} at most")
