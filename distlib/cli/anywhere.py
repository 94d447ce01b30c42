"""The course in a Python that somebody else has set up, such as Colab's: install what is missing, and check.

Torch and Jupyter stay there what they are: what is there and new enough is kept, at its version. What is missing comes
in the version of constraints.txt. Everywhere else `make env` makes an environment. Nothing need be installed to run it:

    python -m distlib.cli.anywhere                     # in the course's folder; all but TensorFlow and JAX
    python -m distlib.cli.anywhere --leave-jupyter     # what a notebook needs in a Jupyter that is not ours
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from distlib.installed_packages import canonical, constraints, versions_here

if TYPE_CHECKING:
    from packaging.requirements import Requirement
else:
    try:
        from packaging.requirements import Requirement
    except ImportError:  # a Python without any package but pip
        from pip._vendor.packaging.requirements import Requirement

COURSE = Path(__file__).parents[2]
FRAMEWORKS = "tensorflow|jax"  # lessons 13 and 14, and nothing else, need them: 1.9 GB
OF_THE_COURSE = ("jupyterlab", "nbgrader", "jupytext")  # a Jupyter that is there does without
OF_JUPYTER = ("ipykernel", "ipywidgets", "nbclient", "nbconvert", "nbformat")  # taken as they are, if they are there
LINES_OF_PIP = 12  # which say why it failed


class NotInstalled(Exception):
    """The packages can't be installed. The message says why, and what to do."""


def main(arguments: list[str] | None = None) -> int:
    """Installs what is missing, and checks. Returns 0, or 1 after saying what is wrong and what to do."""
    parser = argparse.ArgumentParser(prog="python -m distlib.cli.anywhere", description="Install what is missing here.")
    parser.add_argument("--without", metavar="PATTERN", default=FRAMEWORKS, help=f"packages to leave out: {FRAMEWORKS}")
    parser.add_argument("--leave-jupyter", action="store_true", help="install no JupyterLab, and no grader")
    options = parser.parse_args(arguments)
    try:
        install_missing(options.without, leave_jupyter=options.leave_jupyter)
    except NotInstalled as error:
        print(error, flush=True)
        return 1
    print("The course is installed. Does it work here?", flush=True)
    # In a new process, which finds what has been installed.
    return subprocess.run([sys.executable, "-m", "distlib.cli", "doctor", "--for-a-notebook"]).returncode


def install_missing(without: str, *, leave_jupyter: bool) -> None:
    """Installs the missing packages, then the course itself.

    Args:
        without: a pattern; packages whose names begin with it are left out. "" leaves out nothing.
        leave_jupyter: nothing of the Jupyter that is here is touched, and no other one is installed.

    Raises:
        NotInstalled: pip can't get them, or the other `distlib` is in the way.
    """
    installed = versions_here()
    if "distlib" in installed:
        raise NotInstalled(
            "Another distribution that is called distlib is installed here, and this course would not be found behind "
            "it. Take it away, then run this again: pip uninstall --yes distlib"
        )
    wanted = list(requirements(without))
    missing = missing_of(wanted, installed, leave_jupyter=leave_jupyter)
    print(f"{len(wanted)} packages are needed. {len(missing)} must be installed: {_names(missing)}.", flush=True)
    if missing:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(constraints(installed, [canonical(each.name) for each in missing])))
            file.flush()
            pip("-c", file.name, *map(str, missing))
    pip("--no-deps", "-e", str(COURSE))


def requirements(without: str) -> Iterator[Requirement]:
    """What the course asks for on this machine. without: a pattern; what begins with it is left out."""
    project = tomllib.loads((COURSE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    of_course = [extras[name] for name in sorted(Requirement(extras["course"][0]).extras)]
    for requirement in map(Requirement, chain(project["dependencies"], *of_course)):
        if requirement.marker is None or requirement.marker.evaluate():
            if not (without and re.match(without, requirement.name)):
                yield requirement


def missing_of(
    wanted: Iterable[Requirement], installed: Mapping[str, str], *, leave_jupyter: bool
) -> list[Requirement]:
    """Those that are not here, or not in a version that will do."""
    missing = []
    for requirement in wanted:
        name = canonical(requirement.name)
        version = installed.get(name)
        kept = version is not None and requirement.specifier.contains(version, prereleases=True)
        if leave_jupyter and (name in OF_THE_COURSE or name in OF_JUPYTER and version is not None):
            kept = True
        missing += [] if kept else [requirement]
    return missing


def pip(*arguments: str) -> None:
    """`pip install` with these arguments, without questions.

    Raises:
        NotInstalled: it fails.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    is_own = sys.prefix != sys.base_prefix  # an environment of its own, where nothing can be installed for the user
    environment = os.environ | ({"PIP_USER": "0"} if is_own else {})
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if not line.startswith("WARNING:")]
        reason = "\n".join(lines[-LINES_OF_PIP:])
        raise NotInstalled(f"pip could not install the packages. Is this machine connected to the internet?\n{reason}")


def _names(missing: Sequence[Requirement]) -> str:
    return ", ".join(requirement.name for requirement in missing) or "none"


if __name__ == "__main__":
    sys.exit(main())
