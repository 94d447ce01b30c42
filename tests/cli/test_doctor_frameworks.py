"""`distlib doctor` on machines whose TensorFlow or JAX is broken."""

from collections.abc import Callable
from typing import Any

import pytest

from distlib.cli import doctor_frameworks as frameworks
from distlib.cli.doctor_checks import Finding
from distlib.cli.doctor_frameworks import COURSE, Installed

WORKS = "print(3.0)"
VERSIONS = {
    "distlib-course": "0.1.0",
    "tensorflow-cpu": "2.21.0",
    "tf-keras": "2.21.0",
    "keras": "3.15.1",
    "protobuf": "7.36.2",
    "numpy": "2.4.6",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
}
REQUIRES = {
    "distlib-course": ["tensorflow-cpu<2.22,>=2.21; python_version < '99'", "jax<0.11,>=0.10"],
    "tensorflow-cpu": ["protobuf<8.0.0,>=6.31.1", "numpy>=1.26.0", "keras>=3.12.0", "nvidia-nccl-cu12; extra == 'gpu'"],
    "tf-keras": ["tensorflow<2.22,>=2.21"],
    "jax": ["jaxlib<=0.10.2,>=0.10.1", "numpy>=2.0"],
}


def machine(requires: dict[str, list[str]] = REQUIRES, **changes: str | None) -> Installed:
    """VERSIONS with changes: tf_keras="2.20.0" for another version, tf_keras=None for none."""
    changed = {**VERSIONS, **{name.replace("_", "-"): version for name, version in changes.items()}}
    return Installed({name: version for name, version in changed.items() if version}, requires)


def test_parts_that_fit_are_named_with_their_versions() -> None:
    finding = frameworks.check_tensorflow(installed=machine(), probe=WORKS)
    assert finding == Finding("ok", "tensorflow-cpu 2.21.0, keras 3.15.1, tf-keras 2.21.0")
    assert frameworks.check_jax(installed=machine(), probe=WORKS) == Finding("ok", "jax 0.10.2, jaxlib 0.10.2")


@pytest.mark.parametrize(
    "check, changes, message",
    [
        ("tensorflow", {"protobuf": "8.1.0"}, "protobuf is 8.1.0, and tensorflow-cpu 2.21.0 needs <8.0.0,>=6.31.1"),
        ("tensorflow", {"protobuf": "5.29.0"}, "protobuf is 5.29.0, and"),
        ("tensorflow", {"protobuf": None}, "protobuf is missing"),
        ("tensorflow", {"numpy": "1.24.0"}, "numpy is 1.24.0, and tensorflow-cpu 2.21.0 needs >=1.26.0"),
        ("tensorflow", {"keras": "2.15.0"}, "keras is 2.15.0, and tensorflow-cpu 2.21.0 needs >=3.12.0"),
        ("tensorflow", {"tf_keras": None}, "tf-keras is missing"),
        ("tensorflow", {"tensorflow_cpu": "2.20.0"}, "tensorflow is 2.20.0, and tf-keras 2.21.0 needs <2.22,>=2.21"),
        ("tensorflow", {"tensorflow": "2.21.0"}, "tensorflow-cpu 2.21.0 and tensorflow 2.21.0 are both installed"),
        ("jax", {"jaxlib": "0.9.0"}, "jaxlib is 0.9.0, and jax 0.10.2 needs <=0.10.2,>=0.10.1"),
        ("jax", {"numpy": "1.26.4"}, "numpy is 1.26.4, and jax 0.10.2 needs >=2.0"),
        ("jax", {"jaxlib": None}, "jaxlib is missing"),
    ],
)
def test_each_breakage_is_a_problem_with_its_culprit(check: str, changes: dict[str, Any], message: str) -> None:
    checks: dict[str, Callable[..., Finding]] = {
        "tensorflow": frameworks.check_tensorflow,
        "jax": frameworks.check_jax,
    }
    finding = checks[check](installed=machine(**changes), probe=WORKS)
    assert finding.level == "problem" and finding.remedy
    assert message in finding.message


def test_what_its_lesson_will_fetch_is_no_problem() -> None:
    for check, changes in (
        (frameworks.check_tensorflow, {"tensorflow_cpu": None}),
        (frameworks.check_jax, {"jax": None}),
    ):
        finding = check(installed=machine(**changes), probe=WORKS)
        assert finding.level == "note" and "`distlib fetch" in finding.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"anywidget": None}, "anywidget is missing"),
        ({"numpy": "1.24.0"}, "numpy is 1.24.0, and distlib-course 0.1.0 needs >=1.26"),
        ({"distlib_course": None}, "the course itself, distlib-course, is not installed in this Python"),
        (
            {"anywidget": None, "tensorflow_cpu": None, "jax": "0.4.0", "numpy": "1.25.0"},
            "anywidget is missing; numpy is",
        ),
    ],
)
def test_packages_that_are_missing_or_do_not_fit(changes: dict[str, Any], message: str) -> None:
    requires = {COURSE: [*REQUIRES[COURSE], "anywidget>=0.9.13", "numpy>=1.26"]}
    present = {"anywidget": "0.11.0"}
    assert frameworks.check_packages(installed=machine(requires, **present)).level == "ok"
    finding = frameworks.check_packages(installed=machine(requires, **{**present, **changes}))
    assert finding.level == "problem" and finding.remedy
    assert message in finding.message and "jax" not in finding.message and "tensorflow" not in finding.message


def test_where_a_python_has_none_nothing_is_wrong() -> None:
    requires = {"distlib-course": ["tensorflow-cpu; python_version > '99'", "jax; python_version > '99'"]}
    for check in (frameworks.check_tensorflow, frameworks.check_jax):
        finding = check(installed=machine(requires, tensorflow_cpu=None, jax=None))
        assert finding.level == "note" and "there is none for this Python" in finding.message


def test_one_that_cannot_be_imported() -> None:
    probe = "raise TypeError('Descriptors cannot be created directly')"
    finding = frameworks.check_tensorflow(installed=machine(), probe=probe)
    assert finding.level == "problem"
    assert finding.message == "can't be imported: TypeError: Descriptors cannot be created directly"


def test_one_whose_import_hangs() -> None:
    finding = frameworks.check_jax(installed=machine(), probe="import time; time.sleep(100)", timeout=0.5)
    assert finding.level == "problem" and "within" in finding.message


def test_this_python_is_read() -> None:
    installed = Installed.here()
    assert "distlib-course" in installed.versions
    assert list(installed.misfits("pytest")) == []


def test_a_network_of_their_own_or_not() -> None:
    assert frameworks.check_own_network(available=True).level == "ok"
    assert frameworks.check_own_network(available=False).level == "note"
