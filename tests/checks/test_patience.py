"""Time limits on a busy machine."""

import os

import pytest

from distlib.checks import patience as patience_module
from distlib.checks.patience import patience


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
