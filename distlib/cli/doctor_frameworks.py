"""The checks of `distlib doctor` about packages, above all TensorFlow and JAX: there, with parts that fit, importable.

Whether parts fit is read from what the packages say of themselves, which names the culprit. Importing, which takes
seconds, happens in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement

from distlib.cli.doctor_checks import COMMAND_TIMEOUT, Finding, last_line, run_command
from distlib.installed_packages import canonical, distributions_here

COURSE = "distlib-course"
EXTRAS = ("", "lessons", "grading", "tensorflow", "jax")  # those of the course
TENSORFLOWS = ("tensorflow-cpu", "tensorflow", "tensorflow-intel", "tf-nightly")  # each brings a package `tensorflow`
AFRESH = "delete .venv, then make env"

TENSORFLOW_PROBE = "import tensorflow, tf_keras; print(float(tensorflow.reduce_sum(tensorflow.ones(3))))"
JAX_PROBE = "import jax; print(float(jax.numpy.ones(3).sum()))"


@dataclass(frozen=True)
class Installed:
    """Distributions by their canonical names ("tf-keras"): their versions, and what each requires, as pip reads it."""

    versions: Mapping[str, str]
    requires: Mapping[str, Sequence[str]]

    @classmethod
    def here(cls) -> Installed:
        """What is installed for this Python."""
        named = distributions_here()
        versions = {name: each.version for name, each in named.items()}
        return cls(versions, {name: each.requires or [] for name, each in named.items()})

    def requirements(self, name: str, extras: Sequence[str] = ("",)) -> Iterator[Requirement]:
        """What a distribution requires on this machine, with these of its extras."""
        for text in self.requires.get(name, ()):
            requirement = Requirement(text)
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras):
                yield requirement

    def misfits(self, name: str, extras: Sequence[str] = ("",)) -> Iterator[str]:
        """What a distribution, with these of its extras, requires and doesn't get, a phrase each."""
        for requirement in self.requirements(name, extras):
            needed = canonical(requirement.name)
            names = TENSORFLOWS if needed == "tensorflow" else (needed,)
            version = next((self.versions[each] for each in names if each in self.versions), None)
            if version is None:
                yield f"{needed} is missing"
            elif not requirement.specifier.contains(version, prereleases=True):
                yield f"{needed} is {version}, and {name} {self.versions[name]} needs {requirement.specifier}"


def check_packages(*, installed: Installed | None = None, extras: Sequence[str] = EXTRAS) -> Finding:
    """What the course requires is there, in versions that will do. TensorFlow and JAX have checks of their own.

    extras: of the package; ("",) for the package alone.
    """
    installed = installed or Installed.here()
    if COURSE not in installed.versions:
        return Finding("problem", f"the course itself, {COURSE}, is not installed in this Python", "make env")
    misfits = [text for text in installed.misfits(COURSE, extras) if not text.startswith((*TENSORFLOWS, "jax"))]
    if misfits:
        return Finding("problem", "; ".join(misfits), AFRESH)
    return Finding("ok", "all there, in versions that will do")


def check_tensorflow(
    *, installed: Installed | None = None, probe: str = TENSORFLOW_PROBE, timeout: float = COMMAND_TIMEOUT
) -> Finding:
    """TensorFlow is there once, with its Keras 3 and Keras 2, and can be imported. Only lesson 13 needs it."""
    installed = installed or Installed.here()
    there = [name for name in TENSORFLOWS if name in installed.versions]
    if len(there) > 1:
        both = " and ".join(f"{name} {installed.versions[name]}" for name in there)
        return Finding("problem", f"{both} are both installed, and overwrite each other's files", AFRESH)
    return _check(installed, "TensorFlow", there, [*there, "keras", "tf-keras"], probe, timeout)


def check_jax(
    *, installed: Installed | None = None, probe: str = JAX_PROBE, timeout: float = COMMAND_TIMEOUT
) -> Finding:
    """JAX is there, fits its jaxlib, and can be imported. Only lesson 14 needs it."""
    installed = installed or Installed.here()
    there = ["jax"] if "jax" in installed.versions else []
    return _check(installed, "JAX", there, ["jax", "jaxlib"], probe, timeout)


def check_own_network(*, available: bool | None = None) -> Finding:
    """The processes of demonstrations of TensorFlow and JAX get a network of their own."""
    if available is None:
        from distlib.frameworks.own_network import has_own_network

        available = has_own_network()
    if available:
        return Finding("ok", "TensorFlow's and JAX's processes get a network of their own")
    return Finding(
        "note",
        "TensorFlow's and JAX's processes listen on all interfaces of this machine, for the seconds that they run",
        "on Linux: install bubblewrap, and allow user namespaces",
    )


def _check(
    installed: Installed, title: str, there: Sequence[str], parts: Sequence[str], probe: str, timeout: float
) -> Finding:
    if not there:
        return _missing(installed, title)
    absent = [name for name in parts if name not in installed.versions]
    misfits = [f"{name} is missing" for name in absent]
    misfits += [text for name in parts if name in installed.versions for text in installed.misfits(name)]
    if misfits:
        return Finding("problem", "; ".join(dict.fromkeys(misfits)), AFRESH)
    try:
        done = run_command([sys.executable, "-c", probe], timeout)
    except subprocess.TimeoutExpired:
        return Finding("problem", f"could not be imported within {timeout:.0f} s", "is the disk slow? Try again")
    if done.returncode:
        return Finding("problem", f"can't be imported: {last_line(done.stderr)}", AFRESH)
    return Finding("ok", ", ".join(f"{name} {installed.versions[name]}" for name in parts))


def _missing(installed: Installed, title: str) -> Finding:
    """None of it is installed: its lesson has not been opened, or there is none for this Python."""
    wanted = {canonical(requirement.name) for requirement in installed.requirements(COURSE, EXTRAS)}
    if wanted.intersection([title.lower(), *(TENSORFLOWS if title == "TensorFlow" else ())]):
        return Finding("note", f"not here yet: its lesson fetches it, and so does `distlib fetch {title.lower()}`")
    return Finding("note", "not installed: there is none for this Python; only one lesson needs it")
