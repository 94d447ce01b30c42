"""The checks of exercise 14, as far as they need no JAX: rings of a mesh, what cuts hold and send, a missing JAX."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from distlib.checks.case import Case
from distlib.checks.plays.calls import call
from distlib.checks.seen import Seen
from distlib.exercises.jax_programs.checks import Cut, Ring, _are_neighbors, check_shardings, check_spmd_step
from distlib.frameworks import optional
from distlib.network import traffic
from distlib.trace import Trace
from distlib.worlds.diagnosis import RunTimeout
from tests.heard import tells


@pytest.mark.slow
def test_the_declarations_import_no_framework() -> None:
    program = "import sys, distlib.exercises.jax_programs.checks; print('jax' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=100) == "False\n"


def test_without_jax_a_check_says_so_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional, "is_there", lambda name: False)
    with pytest.raises(ImportError, match="^jax is not installed. `distlib fetch jax` installs it"):
        check_shardings(lambda mesh, shapes, way: None, cuts=[Cut("data parallel", [4, 8, 4])])


def test_a_step_that_takes_too_long() -> None:
    late = RunTimeout("not done after 15 s: rank 0 was computing.", [0])
    remark = check_spmd_step.remark(Seen(Case("on 2 devices", call, [{}]), [], Trace(1, []), True, late))
    assert remark is not None
    assert tells(remark.cause, "jax_programs/checks.txt: slow")


def test_the_rings_of_a_mesh_with_two_axes() -> None:
    grid = [("rows", 2), ("columns", 3)]
    assert Ring(grid, "columns", (3,)).rings.tolist() == [[0, 1, 2], [3, 4, 5]]
    by_rows = Ring(grid, "rows", (2,))
    assert by_rows.rings.tolist() == [[0, 3], [1, 4], [2, 5]]
    pieces = torch.arange(12).reshape(6, 2)
    assert by_rows.summed(pieces)[0].tolist() == by_rows.summed(pieces)[3].tolist() == [6, 8]


def test_neighbors_are_one_place_apart_in_the_same_ring() -> None:
    ring = Ring([("rows", 2), ("columns", 4)], "columns", (4,))
    assert _are_neighbors(ring, 0, 1) and _are_neighbors(ring, 0, 3) and _are_neighbors(ring, 6, 5)
    assert not _are_neighbors(ring, 0, 2) and not _are_neighbors(ring, 0, 4) and not _are_neighbors(ring, 3, 4)
    assert not _are_neighbors(ring, 1, 1)


def test_what_a_step_may_send_is_what_our_collectives_send() -> None:
    data, tensor = (Cut(f"{way} parallel", [12, 32, 8, 16, 4]) for way in ("data", "tensor"))
    numbers = sum(torch.Size(shape).numel() for shape in data.shapes.values())
    assert data.sends == traffic.ring_all_reduce(4, numbers, 4).nbytes[0]
    sums = [traffic.ring_all_reduce(4, 48 * width, 4).nbytes[0] for width in (8, 4, 8)]
    assert tensor.sends == sum(sums)


def test_what_a_device_holds() -> None:
    sharded = Cut("fully sharded", [5, 9, 4], devices=3)
    assert {name: sharded.held(name) for name in sharded.shapes} == {"W1": 15, "b1": 3, "W2": 12, "b2": 4}
    tensor = Cut("tensor parallel", [5, 9, 4], devices=3)
    assert {name: tensor.held(name) for name in tensor.shapes} == {"W1": 15, "b1": 3, "W2": 12, "b2": 4}
    assert Cut("data parallel", [5, 9, 4], devices=3).held("W1") == 45
