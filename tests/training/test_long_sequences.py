"""Attention over a cut sequence: equal to one process, values and gradients; its bytes, its work and its time."""

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from distlib import Cluster, Communicator, DeadlockError, Link, MessageMismatch, RankError, SimulatedWorld, World
from distlib.network import Traffic, duration, traffic
from distlib.training.long_sequences import (
    AttentionTask,
    OnlineSoftmax,
    attention_seconds,
    blocks_of,
    heads_to_sequence,
    join_sequence,
    own_sequence,
    pairs_per_rank,
    play_ring,
    ring_attention,
    ring_attention_traffic,
    sequence_to_heads,
    ulysses_attention,
    visible_pairs,
)

DOUBLE = torch.float64
RING, ZIGZAG, ULYSSES = "contiguous", "zigzag", "ulysses"
METHODS = [RING, ZIGZAG, ULYSSES]
LINK = Link(latency=3e-6, bandwidth=50e9)
Tensors = list[torch.Tensor]


def simulated(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")


def drawn(*shape: int, count: int = 4, seed: int = 0, dtype: torch.dtype = DOUBLE) -> Tensors:
    """Queries, keys, values and the gradient of the output."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator, dtype=DOUBLE).to(dtype) for _ in range(count)]


def attend(comm: Communicator, method: str, causal: bool, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):
    if method == ULYSSES:
        return ulysses_attention(comm, q, k, v, causal=causal)
    return ring_attention(comm, q, k, v, causal=causal, order=method)


def order_of(method: str) -> str:
    return RING if method == ULYSSES else method


def through(comm: Communicator, method: str, causal: bool, whole: Tensors, backward: bool = True) -> Tensors:
    """The rank's output and the gradients of its queries, keys and values."""
    queries, keys, values, gradient = (own_sequence(comm, tensor, order_of(method)).clone() for tensor in whole)
    inputs = [tensor.requires_grad_() for tensor in (queries, keys, values)]
    output = attend(comm, method, causal, *inputs)
    if not backward:
        return [output.detach()]
    output.backward(gradient)
    return [output.detach(), *(tensor.grad for tensor in inputs if tensor.grad is not None)]


def in_one_process(causal: bool, whole: Tensors) -> Tensors:
    inputs = [tensor.clone().requires_grad_() for tensor in whole[:3]]
    output = scaled_dot_product_attention(*inputs, is_causal=causal)
    output.backward(whole[3])
    return [output.detach(), *(tensor.grad for tensor in inputs if tensor.grad is not None)]


def joined(by_rank: list[Tensors], method: str) -> Tensors:
    return [join_sequence(parts, order_of(method)) for parts in zip(*by_rank, strict=True)]


def assert_same(found: Tensors, expected: Tensors, tolerance: float = 1e-9) -> None:
    assert len(found) == len(expected) == 4
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


# ── values and gradients ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_output_and_gradients_equal_one_process(ranks: int, method: str, causal: bool) -> None:
    for length, heads, head in ((2, ranks, 3), (6, 2 * ranks, 1)):  # one head a rank, and two
        whole = drawn(2, heads, ranks * length, head, seed=ranks + length)
        found = joined(simulated(ranks).run(through, method, causal, whole), method)
        assert_same(found, in_one_process(causal, whole))


@pytest.mark.parametrize("method", [RING, ZIGZAG])
def test_a_ring_takes_fewer_heads_than_ranks_and_blocks_of_one_position(method: str) -> None:
    whole = drawn(1, 1, 4 * len(blocks_of(0, 4, method)), 2)
    assert_same(joined(simulated(4).run(through, method, True, whole), method), in_one_process(True, whole))


@pytest.mark.parametrize("method", METHODS)
def test_real_ranks(method: str) -> None:
    whole = drawn(2, 3, 12, 4)
    with World(3) as world:
        for causal in (False, True):
            assert_same(joined(world.run(through, method, causal, whole), method), in_one_process(causal, whole))


def test_only_what_needs_a_gradient_gets_one() -> None:
    whole = drawn(1, 2, 4, 3)

    def of_values(comm: Communicator) -> torch.Tensor | None:
        queries, keys, values, gradient = (own_sequence(comm, tensor).clone() for tensor in whole)
        ring_attention(comm, queries, keys, values.requires_grad_()).backward(gradient)
        assert queries.grad is None and keys.grad is None
        return values.grad

    found = join_sequence(simulated(2).run(of_values))
    torch.testing.assert_close(found, in_one_process(False, whole)[3], rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_inputs_need_not_be_contiguous_and_stay_as_they_are(method: str) -> None:
    whole = drawn(2, 4, 8, 3)

    def strided(comm: Communicator) -> Tensors:
        inputs = [own_sequence(comm, tensor, order_of(method)) for tensor in whole[:3]]
        views = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs]
        assert not views[0].is_contiguous()
        output = attend(comm, method, True, *views)
        assert all(torch.equal(view, tensor) for view, tensor in zip(views, inputs, strict=True))
        return [output]

    found = joined(simulated(2).run(strided), method)
    torch.testing.assert_close(found[0], in_one_process(True, whole)[0], rtol=0, atol=1e-9)


# ── large numbers, and few bits ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("method", [RING, ZIGZAG])
def test_large_scores_do_not_overflow(method: str, causal: bool) -> None:
    whole = [tensor.clone() for tensor in drawn(1, 2, 12, 4, dtype=torch.float32)]
    whole[0] *= 300  # e to the power of a score is far beyond float32
    assert (whole[0] @ whole[1].mT).max() / 2 > 500
    found = joined(simulated(3).run(through, method, causal, whole), method)
    expected = [tensor.float() for tensor in in_one_process(causal, [tensor.double() for tensor in whole])]
    assert all(tensor.isfinite().all() for tensor in found)
    assert_same(found, expected, 1e-2)  # scores of some hundreds have four digits after the point
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    whole = drawn(1, 2, 64, 8, dtype=dtype)
    world = simulated(4)
    found = joined(world.run(through, ZIGZAG, True, whole), ZIGZAG)
    exact = in_one_process(True, [tensor.double() for tensor in whole])
    for ours, wanted in zip(found, exact, strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - wanted).abs().max() <= 4 * torch.finfo(dtype).eps * wanted.abs().max()
    assert world.trace.bytes_sent == (traffic_of(RING, 4, 2 * 16 * 8, 2)[0] + traffic_of(RING, 4, 256, 2)[1]).nbytes


def test_a_softmax_of_blocks_is_that_of_the_whole_in_any_order() -> None:
    queries, values = torch.empty(2, 3, 5, 4, dtype=DOUBLE), torch.randn(2, 3, 12, 4, dtype=DOUBLE)
    scores = 100 * torch.randn(2, 3, 5, 12, dtype=DOUBLE)
    blocks = list(zip(scores.split([1, 7, 4], dim=-1), values.split([1, 7, 4], dim=-2), strict=True))
    for mended in (blocks, blocks[::-1]):
        softmax = OnlineSoftmax(queries)
        for block in mended:
            softmax.add(*block)
        output, logarithm = softmax.result()
        torch.testing.assert_close(output, scores.softmax(-1) @ values, rtol=0, atol=1e-12)
        torch.testing.assert_close(logarithm, scores.logsumexp(-1, keepdim=True), rtol=0, atol=1e-12)


def test_a_block_that_nobody_sees_changes_nothing() -> None:
    hidden, values = torch.full((1, 1, 2, 3), -torch.inf), torch.randn(1, 1, 3, 4)
    seen = torch.randn(1, 1, 2, 3)
    seen[..., 1, :] = -torch.inf  # the second query sees none of these either
    softmax = OnlineSoftmax(torch.empty(1, 1, 2, 4))
    softmax.add(hidden, values)
    nothing, logarithm = softmax.result()
    assert torch.equal(nothing, torch.zeros(1, 1, 2, 4)) and (logarithm == -torch.inf).all()
    softmax.add(seen, values)
    softmax.add(hidden, values)
    output, logarithm = softmax.result()
    torch.testing.assert_close(output[..., 0, :], seen[..., 0, :].softmax(-1) @ values[0])
    assert torch.equal(output[0, 0, 1], torch.zeros(4)) and logarithm[0, 0, 1] == -torch.inf


# ── which positions a rank has, and what it computes ─────────────────────────────────────────────────────────────────


def test_blocks() -> None:
    assert [blocks_of(rank, 4) for rank in range(4)] == [[0], [1], [2], [3]]
    assert [blocks_of(rank, 4, ZIGZAG) for rank in range(4)] == [[0, 7], [1, 6], [2, 5], [3, 4]]


@pytest.mark.parametrize("order", [RING, ZIGZAG])
def test_a_sequence_that_was_cut_is_joined_again(order: str) -> None:
    whole = torch.arange(24.0).view(1, 12, 2)
    parts = SimulatedWorld(3).run(own_sequence, whole, order)
    assert [part.shape for part in parts] == [(1, 4, 2)] * 3
    assert torch.equal(join_sequence(parts, order), whole)
    assert parts[0][0, :, 0].tolist() == ([0, 2, 4, 6] if order == RING else [0, 2, 20, 22])


def seen_pairs(rank: int, source: int, ranks: int, length: int, order: str, causal: bool) -> int:
    """By a mask of the whole sequence."""
    mask = torch.ones(length, length, dtype=torch.bool)
    parts = list(torch.arange(length).chunk(ranks * len(blocks_of(0, ranks, order))))
    mask = mask.tril() if causal else mask
    mine, theirs = (torch.cat([parts[b] for b in blocks_of(each, ranks, order)]) for each in (rank, source))
    return int(mask[mine][:, theirs].sum())


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("order", [RING, ZIGZAG])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_counted_pairs_are_those_of_the_mask(ranks: int, order: str, causal: bool) -> None:
    length = 6 * ranks
    steps = visible_pairs(ranks, length, order, causal=causal)
    for step, counts in enumerate(steps):
        sources = [(rank - step) % ranks for rank in range(ranks)]
        assert counts == [seen_pairs(r, source, ranks, length, order, causal) for r, source in enumerate(sources)]
    assert pairs_per_rank(ranks, length, order, causal=causal) == [sum(column) for column in zip(*steps, strict=True)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 16])
def test_zigzag_gives_every_rank_the_same_in_every_step(ranks: int) -> None:
    length = 8 * ranks
    assert all(len(set(counts)) == 1 for counts in visible_pairs(ranks, length, ZIGZAG))
    assert pairs_per_rank(ranks, length, ZIGZAG) == [length * (length + 1) // 2 // ranks] * ranks
    contiguous = pairs_per_rank(ranks, length)
    assert all(later - earlier == 64 for earlier, later in pairwise(contiguous))


@pytest.mark.parametrize("order", [RING, ZIGZAG])
def test_blocks_that_nobody_sees_are_skipped(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add, computed = OnlineSoftmax.add, []

    def counted(self: OnlineSoftmax, scores: torch.Tensor, values: torch.Tensor) -> None:
        computed.append(scores.shape[-2] * scores.shape[-1])
        add(self, scores, values)

    monkeypatch.setattr(OnlineSoftmax, "add", counted)
    whole, blocks = drawn(1, 1, 24, 2), 4 * len(blocks_of(0, 4, order))
    size = 24 // blocks
    for causal in (False, True):
        computed.clear()
        simulated(4).run(through, order, causal, whole, False)
        assert sum(computed) == size**2 * (blocks * (blocks + 1) // 2 if causal else blocks**2)
        hidden = blocks * size * (size - 1) // 2 if causal else 0  # in the blocks on the diagonal
        assert sum(pairs_per_rank(4, 24, order, causal=causal)) == sum(computed) - hidden


# ── messages and bytes ───────────────────────────────────────────────────────────────────────────────────────────────


def ulysses_traffic(ranks: int, length: int, itemsize: int) -> Traffic:
    """In one direction: three tensors there, one back."""
    there, back = (traffic.all_to_all(ranks, count * length, itemsize) for count in (3, 1))
    return there + back


def traffic_of(method: str, ranks: int, length: int, itemsize: int) -> tuple[Traffic, Traffic]:
    """Forward and backward."""
    if method == ULYSSES:
        return ulysses_traffic(ranks, length, itemsize), ulysses_traffic(ranks, length, itemsize)
    forward = ring_attention_traffic(ranks, length, itemsize)
    return forward, ring_attention_traffic(ranks, length, itemsize, backward=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
def test_messages_bytes_and_rounds(ranks: int, method: str, causal: bool, dtype: torch.dtype) -> None:
    whole = drawn(2, 2 * ranks, 2 * ranks, 3, dtype=dtype)
    forward, backward = traffic_of(method, ranks, whole[0].numel() // ranks, dtype.itemsize)
    for expected, both in ((forward, False), (forward + backward, True)):
        world = simulated(ranks)
        world.run(through, method, causal, whole, both)
        assert Traffic(world.trace.messages_sent, world.trace.bytes_sent, world.trace.rounds) == expected


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_formulas(ranks: int) -> None:
    block = 8 * 13 * ranks
    assert ring_attention_traffic(ranks, 13 * ranks, 8).nbytes == [2 * (ranks - 1) * block] * ranks
    both_ways = 2 * (ranks - 1) * block + 2 * ranks * block
    assert ring_attention_traffic(ranks, 13 * ranks, 8, backward=True).nbytes == [both_ways * (ranks > 1)] * ranks
    assert ulysses_traffic(ranks, 13 * ranks, 8).nbytes == [4 * (ranks - 1) * block // ranks] * ranks


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sequence", [2048, 2**18])  # bound by the links, and by computing
@pytest.mark.parametrize("method", [RING, ZIGZAG])
def test_a_step_of_the_ring_takes_the_longer_of_computing_and_sending(method: str, sequence: int) -> None:
    task, ranks = AttentionTask(heads=8, sequence=sequence), 8
    sending = LINK.seconds(2 * task.block(ranks).numel() * 2)
    computing = [task.seconds(max(counts)) for counts in visible_pairs(ranks, sequence, method)]
    expected = sum(max(sending, each) for each in computing[:-1]) + computing[-1]
    assert (sending > computing[1]) == (sequence == 2048)
    assert attention_seconds(Cluster.flat(ranks, LINK), task, method) == pytest.approx(expected, rel=1e-9)


def test_a_rank_says_when_it_computes() -> None:
    task, world = AttentionTask(heads=8, sequence=2**18), SimulatedWorld(4, Cluster.flat(4, LINK))
    for order, busy in ((RING, [1 / 7, 3 / 7, 5 / 7, 1]), (ZIGZAG, [1, 1, 1, 1])):
        spans = world.run(play_ring, task, order)
        assert [len(each) for each in spans] == [4] * 4
        shares = [sum(end - start for start, end in each) / world.elapsed for each in spans]
        assert shares == pytest.approx(busy, abs=1e-4)


@pytest.mark.parametrize("causal", [False, True])
def test_ulysses_takes_two_all_to_alls_and_its_share_of_computing(causal: bool) -> None:
    task, cluster = AttentionTask(heads=8, sequence=4096, causal=causal), Cluster.flat(4, LINK)
    pairs = sum(pairs_per_rank(4, 4096, causal=causal))
    there, back = (duration.all_to_all(cluster, count * task.block(4).numel(), 2) for count in (3, 1))
    for backward, expected in (
        (False, there + back + task.seconds(pairs / 4)),
        (True, 2 * (there + back) + task.seconds(pairs / 4) * 3.5),
    ):
        assert attention_seconds(cluster, task, ULYSSES, backward=backward) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("ranks", [4, 8])
def test_short_sequences_want_ulysses_and_long_ones_a_ring(ranks: int, backward: bool) -> None:
    cluster, winners = Cluster.flat(ranks, LINK), []
    for sequence in (4096, 32768, 262144):
        task = AttentionTask(heads=16, sequence=sequence)
        seconds = {method: attention_seconds(cluster, task, method, backward=backward) for method in METHODS}
        assert seconds[ZIGZAG] <= seconds[RING]
        winners.append(min(seconds, key=lambda method: seconds[method]))
    assert winners[0] == ULYSSES and winners[-1] == ZIGZAG


@pytest.mark.parametrize("causal", [False, True])
def test_with_two_ranks_both_send_the_same_and_the_ring_hides_it(causal: bool) -> None:
    assert ulysses_traffic(2, 64, 2).nbytes == ring_attention_traffic(2, 64, 2).nbytes
    for sequence in (4096, 262144):
        task, cluster = AttentionTask(heads=16, sequence=sequence, causal=causal), Cluster.flat(2, LINK)
        assert attention_seconds(cluster, task, ZIGZAG) < attention_seconds(cluster, task, ULYSSES)


def test_a_causal_mask_saves_a_contiguous_ring_next_to_nothing() -> None:
    cluster, sequence = Cluster.flat(8, LINK), 2**20  # the links don't matter
    full, contiguous, zigzag = (
        attention_seconds(cluster, AttentionTask(heads=8, sequence=sequence, causal=causal), method)
        for causal, method in ((False, RING), (True, RING), (True, ZIGZAG))
    )
    assert contiguous / full == pytest.approx(15 / 16, abs=1e-3)  # half of the first block, then none
    assert zigzag / full == pytest.approx(1 / 2, abs=1e-3)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────

Q = torch.zeros(1, 2, 4, 3)


@pytest.mark.parametrize(
    ("ranks", "call", "words"),
    [
        (3, lambda comm: own_sequence(comm, Q), "own_sequence expected a sequence that 3 blocks divide, got 4 pos"),
        (4, lambda comm: own_sequence(comm, Q, ZIGZAG), "expected a sequence that 8 blocks divide, got 4 positions"),
        (2, lambda comm: own_sequence(comm, Q, "striped"), "expected order to be one of contiguous, zigzag, got"),
        (2, lambda comm: ring_attention(comm, Q, Q, Q, order=3), "expected order to be one of contiguous, zigzag"),
        (
            2,
            lambda comm: ring_attention(comm, Q[:, :, :3], Q[:, :, :3], Q[:, :, :3], order=ZIGZAG),
            "ring_attention expected a part that 2 blocks divide, got 3 positions",
        ),
        (2, lambda comm: ring_attention(comm, Q, Q[:, :, :3], Q), "expected keys of the shape and dtype of the quer"),
        (2, lambda comm: ring_attention(comm, Q, Q, Q.double()), "expected values of the shape and dtype of the que"),
        (2, lambda comm: ring_attention(comm, Q[0], Q[0], Q[0]), "floats [batch, heads, length, head] as queries"),
        (2, lambda comm: ring_attention(comm, Q, None, Q), "ring_attention expected a torch.Tensor as keys, got None"),
        (3, lambda comm: ulysses_attention(comm, Q, Q, Q), "expected a number of heads that 3 ranks divide, got sha"),
        (3, lambda comm: heads_to_sequence(comm, Q), "expected a number of positions that 3 ranks divide, got shape"),
        (2, lambda comm: sequence_to_heads(comm, Q[0, 0]), "expected a number of heads that 2 ranks divide, got sha"),
    ],
)
def test_bad_input(ranks: int, call: Callable[[Communicator], object], words: str) -> None:
    with pytest.raises(RankError) as caught:
        SimulatedWorld(ranks).run(call)
    assert words in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_unequal_blocks_are_named(method: str) -> None:
    def unequal(comm: Communicator) -> None:
        part = torch.zeros(1, 2, 2 + 2 * comm.rank, 3)
        attend(comm, method, False, part, part, part)

    with World(2) as real:
        for world in (SimulatedWorld(2), real):
            with pytest.raises(MessageMismatch) as caught:
                world.run(unequal)
            assert "1×2×2×3 float32, causal=False" in str(caught.value) and "1×2×4×3" in str(caught.value)


@pytest.mark.parametrize("method", METHODS)
def test_a_rank_that_leaves_out_backward_is_named(method: str) -> None:
    def incomplete(comm: Communicator) -> None:
        part = torch.zeros(1, 2, 2, 3, requires_grad=True)
        output = attend(comm, method, False, part, part, part)
        if comm.rank == 0:
            output.sum().backward()

    with pytest.raises(DeadlockError, match="attention_backward"):
        simulated(2).run(incomplete)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_that_disagree_about_the_mask_are_told(method: str) -> None:
    def disagree(comm: Communicator) -> None:
        attend(comm, method, comm.rank == 1, Q, Q, Q)

    with pytest.raises(MessageMismatch) as caught:
        SimulatedWorld(2).run(disagree)
    assert "causal=True" in str(caught.value) and "causal=False" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: visible_pairs(0, 4), "visible_pairs expected an integer of at least 1 as world_size"),
        (lambda: visible_pairs(3, 4), "visible_pairs expected a sequence that 3 blocks divide, got 4 positions"),
        (lambda: pairs_per_rank(2, 6, ZIGZAG), "expected a sequence that 4 blocks divide, got 6 positions"),
        (lambda: blocks_of(0, 2, "snake"), "expected order to be one of contiguous, zigzag, got order='snake'"),
        (lambda: attention_seconds(Cluster.flat(2), AttentionTask(2, 4), "ring"), "expected a method from contiguous"),
        (lambda: ring_attention_traffic(0, 4, 8), "ring_attention_traffic expected an integer of at least 1"),
    ],
)
def test_bad_numbers(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)
