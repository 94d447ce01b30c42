"""What the lessons on TensorFlow share, as far as it needs no TensorFlow: they run the rest themselves."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from distlib.frameworks.tensorflow_classifier import Classifier, flat, furthest, times_too_large
from distlib.frameworks.tensorflow_cluster import leave_together, serving, task_environment
from distlib.frameworks.tf_config import parse_tf_config

CLUSTER = {"chief": ("a:1",), "worker": ("b:1", "c:1"), "ps": ("d:1",)}


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier.of_digits()


def test_every_training_begins_with_the_same_weights(classifier: Classifier) -> None:
    assert [array.shape for array in classifier.first] == [(64, 32), (32,), (32, 10), (10,)]
    assert classifier.nbytes == 4 * 2410
    assert furthest(classifier.first, Classifier.of_digits().first) == 0


def test_batches_go_around(classifier: Classifier) -> None:
    images, labels = classifier.batch(0)
    assert images.shape == (240, 64) and labels.shape == (240,)
    assert (classifier.batch(6)[0] == images).all() and not (classifier.batch(1)[0] == images).all()


def test_how_much_too_large_a_gradient_is(classifier: Classifier) -> None:
    four_times = [4 * array for array in classifier.first]
    assert times_too_large(four_times, classifier.first) == pytest.approx(4)
    assert furthest(four_times, classifier.first) == pytest.approx(3 * np.abs(flat(classifier.first)).max())


def test_the_environment_of_a_task_is_read_back() -> None:
    environment = task_environment(CLUSTER, "worker", 1)
    assert int(environment["TF_NUM_INTEROP_THREADS"]) > 1, "on one processor a server could not answer"
    config = parse_tf_config(environment["TF_CONFIG"])
    assert (config.role, config.index, config.address) == ("worker", 1, "c:1")
    assert config.cluster == CLUSTER


def test_who_serves(tmp_path: Path) -> None:
    processes = serving(CLUSTER, tmp_path / "alive")
    assert list(processes) == ["worker 0", "worker 1", "ps 0"]
    assert parse_tf_config(processes["ps 0"].env["TF_CONFIG"]).address == "d:1"


def test_nobody_leaves_before_the_last_has_come(tmp_path: Path) -> None:
    waiting = threading.Thread(target=leave_together, args=(tmp_path, 2), daemon=True)
    waiting.start()
    while not (tmp_path / f"done {os.getpid()}").exists():
        time.sleep(0.001)
    assert waiting.is_alive()
    (tmp_path / "done 0").touch()
    waiting.join(60)
    assert not waiting.is_alive()
