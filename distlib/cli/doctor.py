"""`distlib doctor`: every check, one line each, and what to do about a problem."""

import sys
import textwrap
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from distlib.cli import doctor_checks as checks, doctor_frameworks as frameworks
from distlib.cli.course_folder import find_course
from distlib.cli.doctor_checks import Finding
from distlib.living_line import waiting

CHECKS: dict[str, Callable[[], Finding]] = {
    "Python": checks.check_python,
    "distlib": checks.check_other_distlib,
    "names": checks.check_names,
    "packages": frameworks.check_packages,
    "torch": checks.check_torch,
    "ranks": checks.check_ranks,
    "transport": checks.check_transport,
    "GPUs": checks.check_gpus,
    "TensorFlow": frameworks.check_tensorflow,
    "JAX": frameworks.check_jax,
    "network": frameworks.check_own_network,
    "kernel": checks.check_kernel,
    "nbgrader": checks.check_nbgrader,
    "alembic": checks.check_alembic,
    "sandbox": checks.check_sandbox,
    "/dev/shm": checks.check_shared_memory,
    "temporary": checks.check_temporary_folder,
    "folder": checks.check_folder,
    "classroom": checks.check_classroom,
    "home": checks.check_home,
    "memory": checks.check_memory,
    "cores": checks.check_cores,
}

# Where a remedy says .venv, and this Python is another one.
NOT_OUR_OWN = " This Python is not the one that `make env` makes, in .venv; perhaps it lacks something on purpose."

# What a notebook needs to run, in a Jupyter that somebody else has set up: no kernel, no grader, no frameworks of ours.
FOR_A_NOTEBOOK = (
    "Python",
    "distlib",
    "names",
    "torch",
    "ranks",
    "transport",
    "GPUs",
    "/dev/shm",
    "temporary",
    "memory",
    "cores",
)


# What the package needs where there is no course, for worlds and `distlib launch`.
FOR_THE_PACKAGE = (*FOR_A_NOTEBOOK, "packages", "folder")


def choose_checks(for_a_notebook: bool) -> dict[str, Callable[[], Finding]]:
    """The checks that concern whoever asks: for the package alone where no course is."""
    if for_a_notebook:
        return {name: CHECKS[name] for name in FOR_A_NOTEBOOK}
    if find_course(Path.cwd()) is not None:
        return CHECKS
    alone = partial(frameworks.check_packages, extras=("",))
    return {name: alone if name == "packages" else CHECKS[name] for name in FOR_THE_PACKAGE}


def doctor(for_a_notebook: bool) -> int:
    """Check this machine, as far as it concerns whoever asks. Returns the exit status."""
    return run_doctor(choose_checks(for_a_notebook))


def run_doctor(available: Mapping[str, Callable[[], Finding]] = CHECKS) -> int:
    """Runs the checks and prints what they find. Returns 1 when one found a problem, else 0."""
    problems, hint = 0, "" if in_own_environment() else NOT_OUR_OWN
    for name, check in available.items():
        finding = examine(check, name)
        print(line_of(name, finding), flush=True)
        problems += finding.level == "problem"
    print("\nNo problems." if not problems else f"\n{problems} problem{'s' if problems > 1 else ''}.{hint}")
    return 1 if problems else 0


def in_own_environment(prefix: Path = Path(sys.prefix)) -> bool:
    """Whether this Python is that of `make env`. prefix: where it is installed."""
    return prefix.name == ".venv"


def examine(check: Callable[[], Finding], name: str = "") -> Finding:
    """Runs one check. A check that fails itself is a problem, not the end of doctor. name: of what is looked at."""
    try:
        with waiting(f"a look at {name}" if name else "a look", checks.COMMAND_TIMEOUT):
            return check()
    except Exception as error:
        return Finding("problem", f"the check itself failed: {type(error).__name__}: {error}", "report this line")


def line_of(name: str, finding: Finding) -> str:
    """What doctor prints of a finding: level, name and message; below them, indented, what to do."""
    line = f"{finding.level:<8} {name:<10} {finding.message}"
    return f"{line}\n{textwrap.indent(finding.remedy, ' ' * 20 + '-> ')}" if finding.remedy else line
