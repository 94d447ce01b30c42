"""The checks of predict_time and choose_algorithm: what is right, known mistakes, what a function may call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from distlib import Cluster, Link, SimulatedWorld, all_reduce, network
from distlib.checks.supplied import predict_time
from distlib.grading import CheckFailed, check_choose_algorithm, check_predict_time
from distlib.grading.prediction_case import PREDICTED, Question
from distlib.grading.prediction_causes import Step, cause_of_time, latency_of, steps_of, travel_of
from distlib.grading.prediction_report import Answers, readable

pytestmark = pytest.mark.timeout(120)

SLOW, FAST = Link(latency=5e-6, bandwidth=12.5e9), Link(latency=1e-6, bandwidth=200e9)
CLUSTERS = [
    *(Cluster.flat(ranks, SLOW) for ranks in (1, 2, 3, 6, 8, 13)),
    *(Cluster(nodes, ranks, FAST, SLOW) for nodes, ranks in ((2, 4), (4, 1), (4, 8), (8, 2))),
]
ONE = Cluster.flat(6, SLOW)


def seconds(steps: list[Step]) -> float:
    return latency_of(steps) + travel_of(steps)


def right(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    return seconds(steps_of(algorithm, nbytes, cluster))


def failure(check: Callable[..., Any], function: Callable[..., object], **changes: Any) -> str:
    """What a student is told, on one line."""
    asked = {"algorithms": ("ring",)} if check is check_predict_time else {"choices": (("ring", "tree"),)}
    with pytest.raises(CheckFailed) as caught:
        check(function, **{**asked, "nbytes": (960,), "clusters": (ONE,), **changes})
    return " ".join(str(caught.value).split())


# ── what is right ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("algorithm", PREDICTED)
@pytest.mark.parametrize("factor", [0, 8, 100_000])
def test_steps_closed_form_and_simulation_agree(algorithm: str, cluster: Cluster, factor: int) -> None:
    nbytes = factor * cluster.world_size
    simulated = simulated_seconds(algorithm, nbytes, cluster)
    for found in (right(algorithm, nbytes, cluster), predict_time(algorithm, nbytes, cluster)):
        assert math.isclose(found, simulated, rel_tol=1e-9, abs_tol=1e-15)


def simulated_seconds(algorithm: str, nbytes: int, cluster: Cluster) -> float:
    world = SimulatedWorld(cluster.world_size, cluster, record=False)
    tensor = torch.empty(nbytes, dtype=torch.uint8, device="meta")
    world.run(lambda comm: all_reduce(comm, tensor, algorithm=algorithm))
    return world.elapsed


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cluster": Cluster(3, 2, FAST, SLOW)}, "powers of two of nodes"),
        ({"cluster": Cluster(2, 2, SLOW, FAST)}, "no faster link between nodes"),
        ({"nbytes": 7}, "bytes that divide by 6 ranks, got 7"),
        ({"algorithms": ("naive",)}, "algorithms out of ring, tree"),
    ],
)
def test_questions_without_an_exact_answer(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Question(**{"function": "f", "nbytes": 12, "cluster": ONE, "algorithms": ("ring",), **changes})


# ── predict_time ─────────────────────────────────────────────────────────────────────────────────────────────────────


def as_in_a_notebook(text: str) -> Callable[..., Any]:
    """A function of a notebook, which travels to its rank by value."""
    names: dict[str, Any] = {"__name__": "__main__", "network": network}
    exec(compile(text, "cell.py", "exec"), names)
    function = names["f"]
    assert callable(function)
    return function


RING = as_in_a_notebook("""
def f(algorithm, nbytes, cluster):
    n = cluster.world_size
    return 2 * (n - 1) * cluster.slowest_link().seconds(nbytes / n)
""")


def test_right_predictions_and_their_report() -> None:
    report = check_predict_time(RING, algorithms=("ring",), nbytes=(0, 960), clusters=(ONE,))
    assert isinstance(report, Answers)
    assert len(report) == 2
    assert report.answers == [pytest.approx(50e-6, rel=1e-12), pytest.approx(50.128e-6, rel=1e-12)]
    assert str(report).splitlines()[0] == "f: right in all 2 cases."
    assert "50.128 µs" in str(report)


def test_a_failed_question_shows_both_times() -> None:
    function = as_in_a_notebook("def f(algorithm, nbytes, cluster): return 25.064e-6")
    told = failure(check_predict_time, function)
    assert told.startswith("f on 6 ranks, ring, 960 bytes, links of 5 µs, 12.5 GB/s: the predicted time is wrong.")
    assert "expected 5.0128e-05 s, that is 50.128 µs" in told
    assert "found 2.5064e-05 s, 0.5 times that" in told
    assert "this is half of it" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("return None", "it returned None; expected a number of seconds"),
        ("return True", "it returned a value of type bool"),
        ("return 'a lot'", "it returned a value of type str"),
        ("return float('nan')", "no mistake known here. There are 10 steps"),
        ("return 1 / (cluster.nodes - 1)", "something is 0 here"),
        ("import time; time.sleep(30)", "it did not finish in time"),
        ("raise NotImplementedError()", "it is not written yet"),
        ("network.duration.ring_all_reduce(cluster, 1, 1)", "it calls distlib.network.duration.ring_all_reduce"),
        ("return network.choose_all_reduce(cluster, 960, 1).seconds['ring']", "distlib.network.choice.choose_all_red"),
    ],
)
def test_what_is_said_of_other_results(text: str, told: str) -> None:
    function = as_in_a_notebook(f"def f(algorithm, nbytes, cluster):\n    {text}")
    assert told in failure(check_predict_time, function)


def test_what_the_library_remembers_counts_as_a_call() -> None:
    function = as_in_a_notebook(
        "def f(algorithm, nbytes, cluster): return network.choose_all_reduce(cluster, 960, 1).seconds['ring']"
    )
    for _ in range(2):
        assert "a function of the library" in failure(check_predict_time, function)


def test_one_rank_takes_no_time() -> None:
    function = as_in_a_notebook("def f(algorithm, nbytes, cluster): return cluster.intra.latency")
    told = failure(check_predict_time, function, clusters=(Cluster.flat(1, SLOW),))
    assert "with one rank there is nothing to do" in told


def test_prints_come_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    function = as_in_a_notebook("""
def f(algorithm, nbytes, cluster):
    import sys
    print("to stderr", file=sys.stderr)
    return 0.0
""")
    failure(check_predict_time, function)
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("Printed by f on 6 ranks, ring, 960 bytes")
    assert "to stderr" in out


@pytest.mark.parametrize("arguments", ["nbytes, cluster", "algorithm, nbytes, cluster, ranks"])
def test_other_arguments_are_refused(arguments: str) -> None:
    told = failure(check_predict_time, as_in_a_notebook(f"def f({arguments}): return 0.0"))
    assert "it can't be called with (algorithm, nbytes, cluster)" in told


@pytest.mark.parametrize("cluster", CLUSTERS[1:], ids=str)
@pytest.mark.parametrize("algorithm", PREDICTED)
def test_common_mistakes_are_told_apart(algorithm: str, cluster: Cluster) -> None:
    nbytes = 7_000 * cluster.world_size
    question = Question("f", nbytes, cluster, (algorithm,))
    latency, travel = (part(steps_of(algorithm, nbytes, cluster)) for part in (latency_of, travel_of))
    assert "bits" in cause_of_time(question, latency + 8 * travel)
    assert "half of it" in cause_of_time(question, (latency + travel) / 2)
    assert "latency is missing" in cause_of_time(question, travel)


# ── choose_algorithm ─────────────────────────────────────────────────────────────────────────────────────────────────


CHOOSE = as_in_a_notebook("""
def f(nbytes, cluster, algorithms):
    return min(algorithms, key=lambda name: predict_time(name, nbytes, cluster))
""")


def test_right_choices_with_a_helper() -> None:
    report = check_choose_algorithm(
        CHOOSE, choices=(("ring", "tree"),), nbytes=(960, 96_000), clusters=(ONE,), helpers=("predict_time",)
    )
    assert report.answers == ["tree", "ring"]
    assert report.summary() == "2 questions"
    assert "ring, tree" in str(report)


def test_a_helper_that_was_not_supplied_counts_as_the_library() -> None:
    function = as_in_a_notebook("""
def f(nbytes, cluster, algorithms):
    from distlib.checks.supplied import predict_time
    return min(algorithms, key=lambda name: predict_time(name, nbytes, cluster))
""")
    assert "it calls distlib.checks.supplied.predict_time" in failure(check_choose_algorithm, function)


@pytest.mark.parametrize("name", ["ring", "hierarchical"])
def test_equally_fast_ones_are_all_right(name: str) -> None:
    function = as_in_a_notebook(f"def f(nbytes, cluster, algorithms): return '{name}'")
    names = ("ring", "tree", "halving_doubling", "hierarchical")
    assert len(check_choose_algorithm(function, choices=(names,), nbytes=(96_000_000,), clusters=(ONE,))) == 1


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("'ring'", "it chose 'ring', which takes 50.128 µs. 'tree' takes 30.4608 µs"),
        ("'ring'", "ring has 10 steps, whose latencies take 50 µs, and its bytes take 128 ns; tree has 6 steps"),
        ("'hierarchical'", "choose among the names in `algorithms`"),
        ("0.5", "return the name of the algorithm, not its time"),
        ("None", "it returned None; expected one of 'ring', 'tree'"),
        ("('tree', 1)", "it returned a value of type tuple"),
    ],
)
def test_what_is_said_of_a_choice(result: str, told: str) -> None:
    function = as_in_a_notebook(f"def f(nbytes, cluster, algorithms): return {result}")
    assert told in failure(check_choose_algorithm, function)


def test_the_slowest_of_all() -> None:
    function = as_in_a_notebook("def f(nbytes, cluster, algorithms): return 'tree'")
    names = ("ring", "tree", "halving_doubling")
    assert "Is it max where it should be min?" in failure(
        check_choose_algorithm, function, choices=(names,), nbytes=(96_000_000,)
    )


@pytest.mark.parametrize(("value", "text"), [(0.0, "0 s"), (1.5, "1.5 s"), (2e-3, "2 ms"), (3e-8, "30 ns")])
def test_seconds_in_the_unit_that_fits(value: float, text: str) -> None:
    assert readable(value) == text
