"""TensorFlow graphs of known content, counted in one process of its own: it starts threads, and forks hang."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from distlib.network import traffic

pytestmark = pytest.mark.slow
ALL = ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
WEIGHTS, BIAS, LOSS, IMAGES = 4 * 64 * 10, 4 * 10, 4, 4 * 8 * 64  # bytes
SMALL = ["chain", "unused", "mean", "none", "stacked", "unknown", "calm loop"]
STEPS = ["one device", "hierarchical", "collective", "nccl", "central"]


@pytest.fixture(scope="module")
def found() -> Any:
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    root = Path(__file__).parents[2]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONPATH": str(root)}
    program = Path(__file__).with_name("tensorflow_program.py")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=250, env={**os.environ, **quiet}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("step", [*STEPS, *(f"{step}, nested" for step in STEPS), *SMALL])
def test_copies_are_those_that_tensorflow_makes(found: Any, step: str) -> None:
    if found[step]["sends"] is None:
        pytest.skip("NCCL needs GPUs")
    assert found[step]["copies"] == found[step]["sends"]


@pytest.mark.parametrize("step", ["one device", "one device, nested"])
def test_reductions_to_one_device_and_back(found: Any, step: str) -> None:
    weights, bias, loss = found[step]["reductions"]
    for reduction, nbytes in ((weights, WEIGHTS), (bias, BIAS), (loss, LOSS)):
        assert reduction["kind"] == "AddN" and reduction["devices"] == ALL and reduction["members"] == 4
        assert reduction["nbytes"] == nbytes
    assert [each["receivers"] for each in (weights, bias, loss)] == [ALL, ALL, ["CPU:0"]]
    assert found[step]["all-reduces"] == 2
    assert sum(found[step]["bytes"]) == 3 * (IMAGES + 2 * (WEIGHTS + BIAS) + LOSS)
    through_rank_0 = traffic.naive_all_reduce(4, 650, 4).nbytes
    assert sum(through_rank_0) == 3 * 2 * (WEIGHTS + BIAS), "the lesson says that they are the same"


@pytest.mark.parametrize("step", ["hierarchical", "hierarchical, nested"])
def test_a_tree_of_additions_has_one_all_reduce(found: Any, step: str) -> None:
    below, other, top, _ = found[step]["reductions"]
    assert [each["devices"] for each in (below, other, top)] == [ALL[:2], ALL[2:], ALL]
    assert all(each["nbytes"] == WEIGHTS + BIAS for each in (below, other, top))
    assert top["receivers"] == ALL
    assert found[step]["all-reduces"] == 1


@pytest.mark.parametrize(
    ("step", "kind", "packs"),
    [("collective", "CollectiveReduceV2", 1), ("nccl", "NcclAllReduce", 2), ("nccl, nested", "NcclAllReduce", 2)],
)
def test_operations_that_find_each_other_are_one_all_reduce(found: Any, step: str, kind: str, packs: int) -> None:
    own = [each for each in found[step]["reductions"] if each["kind"] == kind]
    assert found[step]["all-reduces"] == len(own)
    assert sum(each["nbytes"] for each in own) == WEIGHTS + BIAS
    assert all(each["devices"] == each["receivers"] == ALL and each["members"] == 4 for each in own)
    assert len(own) <= packs


def test_central_storage_reduces_and_does_not_give_back(found: Any) -> None:
    assert found["central"]["all-reduces"] == 0
    assert [each["receivers"] for each in found["central"]["reductions"]] == [["CPU:0"]] * 3
    assert found["central: weights"] == ["CPU:0"]
    assert found["collective: weights"] == ALL


def test_a_sum_written_by_hand_is_found(found: Any) -> None:
    last = found["chain"]["reductions"][-1]
    assert (last["devices"], last["receivers"], last["nbytes"]) == (ALL, ALL[:2], 20)
    assert [len(each["devices"]) for each in found["chain"]["reductions"]] == [2, 3, 4]
    assert found["chain"]["all-reduces"] == 0, "devices 2 and 3 don't get it"


def test_what_nobody_needs_is_not_counted(found: Any) -> None:
    assert found["unused"]["reductions"] == found["unused"]["copies"] == []
    assert found["none"]["reductions"] == []


def test_a_mean_is_an_all_reduce(found: Any) -> None:
    assert found["mean"]["all-reduces"] == 1


def test_a_sum_of_what_was_gathered_is_a_reduction(found: Any) -> None:
    (only,) = found["stacked"]["reductions"]
    assert (only["kind"], only["devices"], only["receivers"]) == ("Sum", ALL, ["CPU:0"])


def test_an_unknown_size_is_unknown_and_not_zero(found: Any) -> None:
    assert found["unknown"]["copies"] == [["CPU:0", "CPU:1"]]
    assert found["unknown"]["bytes"] == [24], "its argument is known"
    assert found["concrete"] == [None]


def test_a_loop_that_communicates_is_refused(found: Any) -> None:
    assert found["loop"].startswith("ValueError: cannot count: StatelessWhile while contains communication")
    assert found["calm loop"]["copies"] == []


def test_devices_of_variables(found: Any) -> None:
    assert found["keras"] == ALL
    assert found["plain"] == ["CPU:0"]


def test_what_is_neither_a_graph_nor_a_variable_is_refused(found: Any) -> None:
    assert found["no graph"].startswith("TypeError: expected a tf.function")
    assert found["no variable"] == "TypeError: expected a variable, got int"
