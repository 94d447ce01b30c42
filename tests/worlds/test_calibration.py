"""Measuring α and β: exact where time is virtual. How long something takes on real ranks, no test says."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from distlib import Cluster, Link, SimulatedWorld, calibrate
from distlib.network import ALL_REDUCES, choose_all_reduce
from distlib.worlds.calibration import Comparison, compare, fit_link

LINK = Link(latency=3e-6, bandwidth=1.7e9)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_in_virtual_time_the_link_is_found_exactly(size: int) -> None:
    world = SimulatedWorld(size, Cluster.flat(size, LINK))
    cluster = calibrate(world, sizes=(4, 4096, 65536))
    assert cluster.world_size == size
    assert cluster.intra.latency == pytest.approx(LINK.latency, rel=1e-9)
    assert cluster.intra.bandwidth == pytest.approx(LINK.bandwidth, rel=1e-9)


@pytest.mark.parametrize("algorithm", ALL_REDUCES)
def test_in_virtual_time_predictions_are_what_is_measured(algorithm: str) -> None:
    world = SimulatedWorld(4, Cluster.flat(4, LINK))
    for comparison in compare(world, world.cluster, algorithm, sizes=(4096, 1 << 20), repeats=2):
        assert comparison.error < (0.05 if algorithm == "double_tree" else 1e-9)


@given(st.floats(1e-7, 1e-3), st.floats(1e6, 1e12))
def test_points_on_a_line_give_that_line(latency: float, bandwidth: float) -> None:
    sizes = [1, 1000, 10**6, 10**9]
    found = fit_link(sizes, [latency + size / bandwidth for size in sizes])
    assert found.latency == pytest.approx(latency, rel=1e-4)
    assert found.bandwidth == pytest.approx(bandwidth, rel=1e-4)


def test_a_small_message_counts_as_much_as_a_large_one() -> None:
    sizes, seconds = [4, 10**9, 10**9, 10**9], [1e-5, 0.9, 1.0, 1.1]
    assert fit_link(sizes, seconds).latency == pytest.approx(1e-5, rel=1e-3)


def test_a_line_that_would_begin_below_zero_begins_at_zero() -> None:
    link = fit_link([100, 200], [1.0, 3.0])
    assert link.latency == 0 and 50 < link.bandwidth < 150


def test_times_that_do_not_grow_show_no_bandwidth() -> None:
    with pytest.raises(ValueError, match=r"1,024 bytes in 2,000.0 µs, 65,536 bytes in 900.0 µs. Measure larger sizes"):
        fit_link([1024, 65536], [2e-3, 9e-4])


def test_real_ranks_can_be_measured_and_chosen_for(worlds) -> None:
    cluster = calibrate(worlds(2))  # sizes far enough from each other for any noise
    assert cluster.world_size == 2 and cluster.intra.bandwidth > 0
    assert choose_all_reduce(cluster, 100, 4).algorithm in ALL_REDUCES
    (comparison,) = compare(worlds(2), cluster, sizes=(4096,), repeats=2)
    assert comparison.nbytes == 4096 and comparison.measured > 0


def test_the_error_is_relative_to_what_was_measured() -> None:
    assert Comparison(4, predicted=3.0, measured=4.0).error == Comparison(4, predicted=5.0, measured=4.0).error == 0.25


def test_what_can_not_be_measured() -> None:
    with pytest.raises(ValueError, match="at least 2 ranks and 2 sizes to measure, got world_size=1"):
        calibrate(SimulatedWorld(1))
    with pytest.raises(ValueError, match=r"got world_size=2, sizes=\(8, 8\)"):
        calibrate(SimulatedWorld(2), sizes=(8, 8))
    with pytest.raises(ValueError, match="expected a cluster of 2 ranks, got one of 3"):
        compare(SimulatedWorld(2), Cluster.flat(3))
    with pytest.raises(ValueError, match="expected one of the algorithms"):
        compare(SimulatedWorld(2), Cluster.flat(2), "star")
