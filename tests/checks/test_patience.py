"""Time limits on a busy machine."""

import os
from types import SimpleNamespace

import pytest

from distlib.checks import patience as patience_module
from distlib.checks.patience import Others, fair_seconds, patience, without_own


@pytest.mark.parametrize(
    ("load", "cores", "factor"), [(0.0, 2, 1), (7.9, 2, 1), (8.1, 2, 2), (13.0, 2, 3), (100.0, 2, 8), (8.1, 16, 1)]
)
def test_limits_grow_with_the_load_of_each_core(
    monkeypatch: pytest.MonkeyPatch, load: float, cores: int, factor: int
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(patience_module, "_running_now", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)), raising=False)
    assert patience() == factor


def test_limits_grow_at_once_when_many_processes_want_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(patience_module, "_running_now", lambda: 30)
    assert patience() == 7


# ── what is a submission's own does not count ────────────────────────────────────────────────────────────────────────


class Machine:
    """A machine with two cores, in virtual time: some keep cores busy, the submission takes its part."""

    def __init__(self) -> None:
        self.now = self.idle = self.own = 0.0

    def run(self, seconds: float, own: float, others: float) -> None:
        """Let time pass. own, others: cores that they keep busy."""
        self.now += seconds
        self.own += own * seconds
        self.idle += (2 - own - others) * seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(patience_module, "time", SimpleNamespace(monotonic=lambda: machine.now))
    monkeypatch.setattr(patience_module, "by_processes", lambda: 1.0)
    return machine


@pytest.fixture
def others(machine: Machine) -> Others:
    return Others(lambda: machine.own, lambda: machine.idle)


@pytest.mark.parametrize(
    ("own", "busy", "factor"),
    [
        (2.0, 0.0, 1),  # a submission that keeps all cores busy, alone
        (1.99, 0.01, 1),
        (1.0, 1.0, 1),  # two submissions, a core each
        (1.0, 0.0, 1),
        (0.0, 0.0, 1),  # it sleeps
        (0.5, 1.5, 2),  # it gets half of what it needs
        (0.01, 1.99, 8),  # beside one that keeps all cores busy
        (0.0, 2.0, 8),
    ],
)
def test_only_what_others_keep_busy_counts(
    machine: Machine, others: Others, own: float, busy: float, factor: float
) -> None:
    for _ in range(20):
        machine.run(1.5, own, busy)
        found = others.factor()
    assert found == pytest.approx(factor, rel=0.02)
    assert others.fair_seconds() == pytest.approx(30 / factor, rel=0.02)


def test_a_moment_of_rest_changes_nothing_and_a_longer_one_does(machine: Machine, others: Others) -> None:
    machine.run(2, 0.25, 1.75)
    assert others.factor() == 4
    machine.run(2, 1, 0)
    assert others.factor() == 4
    assert others.fair_seconds() == 2 / 4 + 2
    for _ in range(10):
        machine.run(2, 1, 0)
        found = others.factor()
    assert found == 1


def test_a_burst_of_looks_costs_one(machine: Machine) -> None:
    looks: list[float] = []
    others = Others(lambda: looks.append(machine.now) or 0.0, lambda: machine.idle)
    for _ in range(100):
        machine.run(0.1, 1, 0)
        others.factor()
    assert 5 <= len(looks) <= 10


def test_where_the_system_does_not_tell_the_processes_count(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    others = Others(lambda: machine.own, lambda: None)
    monkeypatch.setattr(patience_module, "by_processes", lambda: 3.0)
    machine.run(2, 1, 0)
    assert others.factor() == 3


def test_it_counts_for_the_submission_that_is_judged_here(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience_module, "idle_seconds", lambda: machine.idle)
    assert fair_seconds() == machine.now
    with without_own(lambda: machine.own):
        machine.run(2, 0.5, 1.5)
        assert patience() == 2
        assert fair_seconds() == 1
    assert patience() == 1
