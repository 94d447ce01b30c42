"""Pipeline schedules: the pictures that everybody knows, happens-before, live microbatches, and bubbles."""

from collections.abc import Callable, Sequence

import pytest

from distlib.training.schedules import (
    Action,
    Costs,
    Schedule,
    ScheduleError,
    check_schedule,
    execution_order,
    gpipe,
    interleaved_1f1b,
    most_live,
    naive,
    one_forward_one_backward,
    parse_schedule,
    schedule_grid,
    time_schedule,
    zero_bubble,
    zero_bubble_v,
)

EQUAL = Costs(forward=1, backward=1)
SIZES = [(p, m) for p in range(1, 9) for m in range(1, 17)]
ONE_STAGE_PER_RANK = [naive, gpipe, one_forward_one_backward, zero_bubble]
ALL: list[Callable[[int, int], Schedule]] = [*ONE_STAGE_PER_RANK, interleaved_1f1b, zero_bubble_v]


# ── pictures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_naive() -> None:
    assert schedule_grid(time_schedule(naive(3, 2), EQUAL)).splitlines() == [
        "rank 0  F0 .. .. .. .. B0 F1 .. .. .. .. B1",
        "rank 1  .. F0 .. .. B0 .. .. F1 .. .. B1 ..",
        "rank 2  .. .. F0 B0 .. .. .. .. F1 B1 .. ..",
    ]


def test_gpipe() -> None:
    assert schedule_grid(time_schedule(gpipe(4, 4), EQUAL)).splitlines() == [
        "rank 0  F0 F1 F2 F3 .. .. .. .. .. .. B0 B1 B2 B3",
        "rank 1  .. F0 F1 F2 F3 .. .. .. .. B0 B1 B2 B3 ..",
        "rank 2  .. .. F0 F1 F2 F3 .. .. B0 B1 B2 B3 .. ..",
        "rank 3  .. .. .. F0 F1 F2 F3 B0 B1 B2 B3 .. .. ..",
    ]


def test_1f1b() -> None:
    assert schedule_grid(time_schedule(one_forward_one_backward(4, 6), EQUAL)).splitlines() == [
        "rank 0  F0 F1 F2 F3 .. .. .. B0 F4 B1 F5 B2 .. B3 .. B4 .. B5",
        "rank 1  .. F0 F1 F2 .. .. B0 F3 B1 F4 B2 F5 B3 .. B4 .. B5 ..",
        "rank 2  .. .. F0 F1 .. B0 F2 B1 F3 B2 F4 B3 F5 B4 .. B5 .. ..",
        "rank 3  .. .. .. F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 .. .. ..",
    ]


def test_1f1b_with_backward_passes_that_take_twice_as_long() -> None:
    assert schedule_grid(time_schedule(one_forward_one_backward(2, 2))).splitlines() == [
        "rank 0  F0 F1 .. .. B0 -- .. B1 --",
        "rank 1  .. F0 B0 -- F1 B1 -- .. ..",
    ]


def test_interleaved() -> None:
    assert schedule_grid(time_schedule(interleaved_1f1b(2, 4), EQUAL)).splitlines() == [
        "rank 0  0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 ... 2B2 ... 2B3 0B2 0B3",
        "rank 1  ... 1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3 ...",
    ]


def test_zero_bubble() -> None:
    assert schedule_grid(time_schedule(zero_bubble(3, 4))).splitlines() == [
        "rank 0  F0 F1 F2 .. .. I0 W0 F3 I1 W1 I2 W2 I3 W3",
        "rank 1  .. F0 F1 .. I0 F2 I1 W0 F3 I2 W1 I3 W2 W3",
        "rank 2  .. .. F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3",
    ]


def test_zero_bubble_v() -> None:
    assert schedule_grid(time_schedule(zero_bubble_v(2, 3))).splitlines() == [
        "rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 0I2 0W2 ...",
        "rank 1  ... 1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2",
    ]


# ── happens-before ───────────────────────────────────────────────────────────────────────────────────────────────────


def happens_before(order: Sequence[Action], num_stages: int) -> bool:
    place = {action: index for index, action in enumerate(order)}
    last = len(order)

    def gradient_at(stage: int, microbatch: int) -> int:
        return min(place.get(Action(stage, kind, microbatch), last) for kind in "BI")

    for (stage, kind, microbatch), index in place.items():
        if kind == "F" and stage > 0 and not place[Action(stage - 1, "F", microbatch)] < index:
            return False
        if kind in "BI" and not place[Action(stage, "F", microbatch)] < index:
            return False
        if kind in "BI" and stage < num_stages - 1 and not gradient_at(stage + 1, microbatch) < index:
            return False
        if kind == "W" and not place[Action(stage, "I", microbatch)] < index:
            return False
    return True


@pytest.mark.parametrize("make", ALL)
def test_it_can_be_executed(make: Callable[[int, int], Schedule]) -> None:
    for p, m in SIZES:
        schedule = make(p, m)
        num_stages = p * (2 if make in (interleaved_1f1b, zero_bubble_v) else 1)
        order = execution_order(schedule)
        assert happens_before(order, num_stages), (p, m)
        assert len(order) == num_stages * m * (3 if make in (zero_bubble, zero_bubble_v) else 2)
        assert [[a for a in order if a in set(row)] for row in schedule] == [list(row) for row in schedule]


@pytest.mark.parametrize("v", [1, 3, 4])
def test_interleaved_with_other_numbers_of_stages(v: int) -> None:
    for p, m in SIZES:
        check_schedule(interleaved_1f1b(p, m, v))


def test_one_stage_per_rank_interleaved_is_1f1b_with_a_longer_warmup() -> None:
    assert interleaved_1f1b(1, 5, 1) == one_forward_one_backward(1, 5)
    assert time_schedule(interleaved_1f1b(4, 8, 1)).bubble == time_schedule(one_forward_one_backward(4, 8)).bubble


# ── live microbatches ────────────────────────────────────────────────────────────────────────────────────────────────


def test_most_live_microbatches() -> None:
    for p, m in SIZES:
        assert most_live(naive(p, m)) == [1] * p
        assert most_live(gpipe(p, m)) == [m] * p
        assert most_live(one_forward_one_backward(p, m)) == [min(m, p - stage) for stage in range(p)]
        assert most_live(zero_bubble(p, m)) == [min(m, p - stage) for stage in range(p)]
        assert most_live(zero_bubble(p, m), up_to_weight=True) == [min(m, p)] * p


def test_a_longer_warmup_keeps_more() -> None:
    for p, m in SIZES:
        for k in (0, 1, 2):
            schedule = one_forward_one_backward(p, m, eager=k)
            check_schedule(schedule)
            assert most_live(schedule) == [min(m, (1 + k) * (p - stage - 1) + 1) for stage in range(p)]
    with pytest.raises(ValueError, match="eager to be an integer of at least 0, got eager=-1"):
        one_forward_one_backward(2, 2, eager=-1)


def test_zero_bubble_v_keeps_what_the_first_rank_of_1f1b_keeps() -> None:
    for p, m in SIZES:
        for up_to_weight in (False, True):
            halves = most_live(zero_bubble_v(p, m), up_to_weight)
            assert max(halves) <= 2 * p
            assert m < 2 * p - 1 or halves == [2 * p] * p


@pytest.mark.parametrize("v", [2, 3])
def test_most_live_microbatches_interleaved(v: int) -> None:
    for p, m in SIZES:
        if m % p == 0:
            expected = [min(v * m, 2 * (p - rank - 1) + (v - 1) * p + 1) for rank in range(p)]
            assert most_live(interleaved_1f1b(p, m, v)) == expected


# ── bubbles ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("costs", [EQUAL, Costs(), Costs(forward=3, backward=0.7)])
def test_bubble_of_gpipe_and_1f1b(costs: Costs) -> None:
    for p, m in SIZES:
        for make in (gpipe, one_forward_one_backward):
            assert time_schedule(make(p, m), costs).bubble == pytest.approx((p - 1) / (m + p - 1), abs=1e-9)


@pytest.mark.parametrize("v", [1, 2, 3])
def test_bubble_of_interleaved(v: int) -> None:
    for p, m in SIZES:
        if m % p == 0:
            bubble = time_schedule(interleaved_1f1b(p, m, v), EQUAL).bubble
            assert bubble == pytest.approx((p - 1) / (v * m + p - 1), abs=1e-9)


def test_bubble_of_zero_bubble_v() -> None:
    for p, m in SIZES:
        timing = time_schedule(zero_bubble_v(p, m), Costs(forward=0.5, backward=1.0))
        if m >= 2 * p - 1:
            assert timing.bubble == pytest.approx((p - 1) / (6 * m + p - 1), abs=1e-9)


def test_bubble_of_naive_and_zero_bubble() -> None:
    for p, m in SIZES:
        assert time_schedule(naive(p, m)).bubble == pytest.approx((p - 1) / p, abs=1e-9)
        halves = time_schedule(zero_bubble(p, m))
        assert halves.seconds == 2 * m + p - 1 + max(m, p)
        if m >= p:
            assert halves.bubble == pytest.approx((p - 1) / (3 * m + p - 1), abs=1e-9)
            assert halves.seconds - 3 * m == pytest.approx((time_schedule(gpipe(p, m)).seconds - 3 * m) / 3)


def test_bubbles_of_four_stages() -> None:
    percent = [round(100 * time_schedule(one_forward_one_backward(4, m)).bubble, 1) for m in (8, 16, 32)]
    assert percent == [27.3, 15.8, 8.6]


# ── unequal stages, and transfers ────────────────────────────────────────────────────────────────────────────────────


def test_the_slowest_stage_sets_the_pace() -> None:
    timing = time_schedule(gpipe(3, 10), Costs(forward=[1, 5, 1], backward=[2, 10, 2]))
    assert timing.seconds == 1 + 10 * 5 + 1 + 2 + 10 * 10 + 2
    assert timing.computing == [30, 150, 30]


def test_a_transfer_counts_only_between_ranks() -> None:
    assert time_schedule(gpipe(2, 1), Costs(1, 1, transfer=10)).seconds == 4 + 2 * 10
    assert time_schedule(parse_schedule(["0F0 1F0 1B0 0B0"]), Costs(1, 1, transfer=10)).seconds == 4


def test_the_halves_of_a_backward_pass_cost_what_is_said() -> None:
    costs = Costs(forward=[1, 2], backward=[3, 5], input=[2, 1])
    assert [costs.of(Action(stage, kind, 0)) for stage in (0, 1) for kind in "FBIW"] == [1, 3, 2, 1, 2, 5, 1, 4]


def test_an_empty_schedule_takes_no_time() -> None:
    timing = time_schedule([[], []])
    assert (timing.seconds, timing.bubble, schedule_grid(timing)) == (0, 0, "rank 0  \nrank 1  ")


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"], "0B0 waits for 1B0, which rank 1 does only after 1F1; 1F1 waits for"),
        (["0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"], "put 0F1 before 0B0, for example"),
        (["0B0 0F0"], "0B0 waits for 0F0, which rank 0 does only after 0B0"),
        (["0F0 0B0", "1B0 1F0"], "1B0 waits for 1F0, which rank 1 does only after 1B0"),
        (["0F0 0B1 0F1 0B0", "1F1 1B1 1F0 1B0"], "0B1 waits for 0F1, which rank 0 does only after 0B1"),
        (["0F0 0W0 0I0"], "0W0 waits for 0I0, which rank 0 does only after 0W0"),
        (["0F0 0B0 0F0"], "0F0 stands twice, on rank 0 and on rank 0"),
        (["0F0 0F1 0B0"], "stage 0 and microbatch 1: expected 0F1, 0B1 .* got 0F1$"),
        (["0F0 0I0"], "expected 0F0, 0B0 .* got 0F0, 0I0$"),
        (["0F0 0B0", "2F0 2B0"], "stage 1 and microbatch 0: .* got nothing"),
        (["0F0 0B0 1F0", "1B0"], "all actions of stage 1 on one rank, got 1F0 on rank 0 and 1B0 on rank 1"),
    ],
)
def test_a_schedule_that_cannot_be_executed(rows: list[str], words: str) -> None:
    with pytest.raises(ScheduleError, match=words):
        time_schedule(parse_schedule(rows))


def test_what_is_not_an_action() -> None:
    with pytest.raises(ValueError, match="such as 2F0, got 'F0'"):
        parse_schedule(["0F0 F0"])
    with pytest.raises(ScheduleError, match="such as 2F0 on rank 0"):
        check_schedule([[Action(0, "X", 0)]])
    with pytest.raises(ScheduleError, match="such as 2F0 on rank 0"):
        check_schedule([[(0, "F", 0)]])  # type: ignore[list-item]


@pytest.mark.parametrize("make", ALL)
def test_sizes_that_cannot_be(make: Callable[[int, int], Schedule]) -> None:
    with pytest.raises(ValueError, match="at least 1, got num_.*=0"):
        make(0, 1)
    with pytest.raises(ValueError, match=r"at least 1, got num_microbatches=1\.5"):
        make(1, 1.5)  # type: ignore[arg-type]


def test_costs_that_cannot_be() -> None:
    with pytest.raises(ValueError, match=r"got backward=\[1, -1\]"):
        Costs(backward=[1, -1])
    with pytest.raises(ValueError, match="a cost of F for stage 1, got costs for 1 stages"):
        time_schedule(gpipe(2, 1), Costs(forward=[1]))
