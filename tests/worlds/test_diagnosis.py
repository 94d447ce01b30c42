"""Who is deadlocked, from what each rank waits for; and the words in which it is said. No processes here."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from distlib import CallSite, MessageMismatch, RankError
from distlib.worlds.diagnosis import (
    Failure,
    RankState,
    Wait,
    explain_deadlock,
    explain_failures,
    find_deadlocked,
    name_ranks,
)
from distlib.worlds.message_check import End, misfit

RUNNING, FINISHED = RankState("running"), RankState("finished")


def receives(*peers: int, any_of: bool = False) -> RankState:
    return RankState("blocked", 0, (Wait("recv", peers, any_of, "4 float32", "cell 7, line 12"),))


def exchanges(dst: int, src: int) -> RankState:
    waits = (
        Wait("send", (dst,), False, "4 float32", "cell 7, line 3"),
        Wait("recv", (src,), False, "4 float32", "cell 7, line 3"),
    )
    return RankState("blocked", 2, waits)


@pytest.mark.parametrize(
    ("states", "stuck"),
    [
        ([receives(1), receives(0)], [0, 1]),
        ([receives(1), RUNNING], []),
        ([receives(1), FINISHED], [0]),
        ([receives(1), receives(2), RUNNING], []),
        ([receives(1), receives(2), receives(1)], [0, 1, 2]),
        ([receives(1), receives(0), RUNNING, RUNNING], [0, 1]),
        ([receives(1, 2, any_of=True), receives(0), RUNNING], []),
        ([receives(1, 2, any_of=True), receives(0), FINISHED], [0, 1]),
        ([exchanges(1, 2), receives(0), RUNNING], [0, 1]),  # a rank needs both halves of its exchange
        ([FINISHED, FINISHED], []),
    ],
)
def test_who_can_not_go_on(states: list[RankState], stuck: list[int]) -> None:
    assert find_deadlocked(dict(enumerate(states)), set()) == stuck


def test_a_rank_with_something_to_read_is_not_stuck() -> None:
    assert find_deadlocked({0: receives(1), 1: receives(0)}, on_their_way={1}) == []


@given(st.lists(st.integers(-2, 7), min_size=2, max_size=8))
def test_with_one_peer_each_a_rank_is_stuck_unless_its_chain_ends_at_a_running_one(waits: list[int]) -> None:
    """The reference follows the chain rank by rank. −2: running, −1: finished, else: receives from that rank."""
    size = len(waits)
    kinds = {-2: RUNNING, -1: FINISHED}
    states = {rank: kinds.get(peer) or receives(peer % size) for rank, peer in enumerate(waits)}

    def ends_well(rank: int) -> bool:
        for _ in range(size + 1):
            if waits[rank] < 0:
                return waits[rank] == -2
            rank = waits[rank] % size
        return False

    expected = [rank for rank in range(size) if waits[rank] >= 0 and not ends_well(rank)]
    assert find_deadlocked(states, set()) == expected


def test_the_text_follows_the_cycle_and_closes_it() -> None:
    states = {0: receives(3), 3: receives(2), 2: receives(1), 1: receives(0)}
    text = explain_deadlock(states, [0, 1, 2, 3])
    assert text.startswith("cell 7, line 12: deadlock. rank 0 waits to receive 4 float32 from rank 3 (cell 7, line 12,")
    places = [
        text.index(part) for part in ("rank 0 waits", "← rank 3 waits", "← rank 2 waits", "← rank 1 waits", "← rank 0.")
    ]
    assert all(a < b for a, b in pairwise(places))


def test_a_long_cycle_is_cut_in_the_middle() -> None:
    size = 64
    text = explain_deadlock({rank: receives((rank - 1) % size) for rank in range(size)}, list(range(size)))
    assert len(text) < 1000 and "60 more ranks" in text


def test_ranks_beside_the_cycle_are_mentioned() -> None:
    states = {0: receives(1), 1: receives(0), 2: receives(0)}
    assert explain_deadlock(states, [0, 1, 2]).endswith("Also blocked: rank 2.")


def failure(rank: int, kind: str = "ValueError", message: str = "bad", line: int = 3) -> Failure:
    return Failure(rank, kind, message, CallSite(f"cell 2, line {line}", "f", "/tmp/cell.py", line), "Traceback …")


def test_failures_are_grouped_by_what_and_where() -> None:
    error = explain_failures([failure(0), failure(1), failure(2, line=5)])
    assert (
        str(error)
        == "cell 2, line 3: ranks 0 and 1 raised ValueError: bad; rank 2 raised ValueError: bad (cell 2, line 5)"
    )
    assert error.ranks == [0, 1, 2] and error.stack.count("Traceback …") == 3


def test_a_sentence_that_names_its_line_ends_once() -> None:
    lost = [failure(rank, "PeerLost", f"rank 1 died (cell 2, line {rank}).", line=rank) for rank in (2, 3)]
    assert str(explain_failures(lost)) == (
        "cell 2, line 2: rank 2 raised PeerLost: rank 1 died (cell 2, line 2); "
        "rank 3 raised PeerLost: rank 1 died (cell 2, line 3)."
    )


def test_both_sides_of_a_mismatch_are_one_error() -> None:
    error = explain_failures(
        [failure(0, "MessageMismatch", "sizes differ"), failure(1, "MessageMismatch", "sizes differ")]
    )
    assert type(error) is MessageMismatch and str(error) == "cell 2, line 3: sizes differ"


@pytest.mark.parametrize(("call", "is_told"), [(None, True), ("all_reduce(7 float32, op=SUM)", False)])
def test_that_chunks_differ_by_one_is_told_only_to_who_cuts_them(call: str | None, is_told: bool) -> None:
    sender, receiver = (End(rank, "", "cpu", "float32", 3 + rank, "cell 2, line 3", call) for rank in range(2))
    assert ("Chunks can differ in length by one" in misfit(sender, receiver)) == is_told


def test_a_mismatch_beside_another_exception_is_no_plain_mismatch() -> None:
    assert type(explain_failures([failure(0, "MessageMismatch", "x"), failure(1)])) is RankError


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([2], "rank 2"),
        ([0, 3], "ranks 0 and 3"),
        ([0, 1, 2], "ranks 0, 1 and 2"),
        (range(64), "ranks 0, 1, 2 … 63 (64 ranks)"),
    ],
)
def test_names_of_ranks(ranks, text: str) -> None:
    assert name_ranks(list(ranks)) == text


def test_alike_calls_on_two_communicators_are_told_as_that() -> None:
    """Both are in the same call by its words, at different lines; on one communicator they would have met."""
    call = 'all_reduce(4 float32, op=SUM, algorithm="ring")'
    waits = [Wait("recv", (1 - rank,), False, "2 float32", f"cell 7, line {rank + 3}", call) for rank in range(2)]
    states = {rank: RankState("blocked", 0, (wait,)) for rank, wait in enumerate(waits)}
    told = explain_deadlock(states, [0, 1])
    assert "Their calls are alike, but not on the same communicator." in told
    assert told.endswith("Hint: every rank has to use its communicators, those of split, in the same order.")
