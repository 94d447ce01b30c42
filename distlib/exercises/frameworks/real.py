"""A port of exercise 15 on the real framework: the same function, unchanged, on two processes. Not graded.

    try_on_the_real_one(fabric_train)        prints what came of it, next to what came of it on the small Fabric

The course does not need the frameworks. Where `make frameworks` has installed them, they have an environment of their
own, in which these processes run.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import cloudpickle
import torch

from distlib.checks.case import Case
from distlib.checks.seen import Played, Seen
from distlib.checks.task import Draw, Task
from distlib.exercises.frameworks.checks import check_accelerate_train, check_fabric_train
from distlib.exercises.frameworks.evaluations import check_accelerate_evaluate, check_fabric_evaluate
from distlib.trace import Trace

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-frameworks"
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


def python_with(package: str) -> str:
    """A Python that has the framework: this one, or that of `make frameworks`.

    Raises:
        RealOneFailed: there is none. One sentence, with what to do.
    """
    if importlib.util.find_spec(package):
        return sys.executable
    if any(ENVIRONMENT.glob(f"lib/python*/site-packages/{package}/__init__.py")):
        return str(ENVIRONMENT / "bin" / "python")
    raise RealOneFailed(f"{package} is not installed. The exercise does not need it; `make frameworks` installs it.")


def version_of(package: str) -> str:
    """Name and version, as pip says them: "lightning-fabric 2.6.6", or "lightning 2.6.6", which brings Fabric along."""
    places = [*(str(path) for path in ENVIRONMENT.glob("lib/python*/site-packages")), *sys.path]
    versions = {each.metadata["Name"].lower().replace("_", "-"): each.version for each in distributions(path=places)}
    names = (package.replace("_", "-"), package.partition("_")[0])
    return next((f"{name} {versions[name]}" for name in names if name in versions), names[0])


def run_on_the_real_one(function: Callable[..., Any], case: Case, package: str) -> Seen:
    """Play a case on processes of torchrun, one for each rank. There are no messages in what was seen.

    Raises:
        RealOneFailed: the framework is not there, or a process has failed, or they are not done after two minutes.
    """
    python = python_with(package)
    with tempfile.TemporaryDirectory() as folder:
        job = {"function": function, "part": case.part, "package": package}
        (Path(folder) / "job").write_bytes(cloudpickle.dumps(job))
        launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.world_size}"]
        _run([python, *launch, "-m", "distlib.exercises.frameworks.real_rank", folder], folder)
        results = [pickle.loads((Path(folder) / f"result {rank}").read_bytes()) for rank in range(case.world_size)]
    return Seen(case, [Played(result, gates) for result, gates in results], Trace(case.world_size, []), False)


def _run(command: list[str], home: str) -> None:
    """Run it in a home of its own, with nothing but this network; leave no process behind."""
    env = {**os.environ, "HOME": home, "TMPDIR": home, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise RealOneFailed(f"not done after {SECONDS:.0f} s. Does only one rank make a call of all ranks?") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        own = [line for line in output.splitlines() if line.strip() and "torch/distributed" not in line]
        raise RealOneFailed("\n".join(["a process has failed:", *own[-_LINES:]]))


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
    print(f"{version_of(port.package)}, two processes: returned {real[0]['returned']}")
    print(f"the small one, two simulated ranks: returned {small[0]['returned']}")
    if "parameters" in real[0]:
        pairs = [(real[0]["parameters"][name], each) for name, each in small[0]["parameters"].items()]
        print(f"parameters differ by {max(float((torch.as_tensor(a) - b).abs().max()) for a, b in pairs):.1g} at most")
