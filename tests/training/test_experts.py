"""A mixture of experts over ranks: equal to one process, values and gradients; what is dropped, sent and refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Cluster, Communicator, DeadlockError, Link, MessageMismatch, RankError, SimulatedWorld, World
from distlib.training.experts import (
    Expert,
    MixtureOfExperts,
    Routing,
    TopKRouter,
    combine,
    dispatch_to_experts,
    expert_capacity,
    expert_seconds,
    has_room,
    load_balancing_loss,
    route,
    sum_router_gradients,
)

DOUBLE = torch.float64
FEATURES, HIDDEN = 4, 6
Tensors = list[torch.Tensor]


def simulated(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def close(found: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    assert found is not None and expected is not None
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


# ── the router ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_token_goes_to_the_experts_with_the_largest_scores() -> None:
    scores = torch.tensor([[0.0, 3.0, 1.0], [2.0, 0.0, 2.5]])
    routing = route(scores, 2)
    assert routing.experts.tolist() == [[1, 2], [2, 0]]
    torch.testing.assert_close(routing.weights, scores.gather(1, routing.experts).softmax(-1))
    plain = route(scores, 2, renormalise=False)
    torch.testing.assert_close(plain.weights, scores.softmax(-1).gather(1, routing.experts))
    torch.testing.assert_close(plain.probabilities, scores.softmax(-1))


def test_with_one_expert_a_token_only_plain_weights_teach_the_router() -> None:
    tokens = drawn(5, FEATURES)
    for renormalise in (True, False):
        router = TopKRouter(FEATURES, 3, k=1, renormalise=renormalise, dtype=DOUBLE)
        router(tokens).weights.square().sum().backward()
        assert router.weight.grad is not None
        assert (float(router.weight.grad.abs().max()) < 1e-12) == renormalise


# ── capacity ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_capacity() -> None:
    assert [expert_capacity(12, 4, 2, factor) for factor in (0.5, 1.0, 1.25)] == [3, 6, 8]
    assert expert_capacity(5, 4) == 2 and expert_capacity(0, 4) == 0


def room_by_hand(experts: torch.Tensor, capacity: int) -> torch.Tensor:
    taken: dict[int, int] = {}
    kept = torch.zeros_like(experts, dtype=torch.bool)
    for choice in range(experts.shape[1]):
        for token in range(experts.shape[0]):
            expert = int(experts[token, choice])
            kept[token, choice] = taken.get(expert, 0) < capacity
            taken[expert] = taken.get(expert, 0) + 1
    return kept


def test_first_choices_come_first_and_then_earlier_tokens() -> None:
    experts = torch.tensor([[0, 1], [0, 1], [1, 0], [0, 2]])
    assert has_room(experts, 2).tolist() == [[True, True], [True, False], [True, False], [False, True]]
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        experts = torch.stack([torch.randperm(5, generator=generator)[:3] for _ in range(11)])
        for capacity in (0, 1, 4, 7, 33):
            assert torch.equal(has_room(experts, capacity), room_by_hand(experts, capacity))
    assert has_room(experts, None).all() and has_room(experts[:0], 3).shape == (0, 3)


# ── there and back ───────────────────────────────────────────────────────────────────────────────────────────────────


def there(comm: Communicator, tokens: list[Tensors], num_experts: int, capacity: int | None) -> tuple[Any, ...]:
    own, experts = tokens[comm.rank]
    found = dispatch_to_experts(comm, own, experts, num_experts, capacity)
    return found.rows, found.counts, found.kept, found.dropped, found.sent, found.received


def numbered(ranks: int, lengths: list[int], num_experts: int, k: int, seed: int = 0) -> list[Tensors]:
    """For each rank tokens [rank, number], and the experts they go to."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for rank in range(ranks):
        count = lengths[rank]
        picks = [torch.randperm(num_experts, generator=generator)[:k] for _ in range(count)]
        experts = torch.stack(picks) if picks else torch.empty(0, k, dtype=torch.int64)
        found.append([torch.tensor([[rank, t] for t in range(count)], dtype=DOUBLE).view(count, 2), experts])
    return found


@pytest.mark.parametrize("capacity", [None, 2])
@pytest.mark.parametrize(("ranks", "num_experts"), [(1, 3), (2, 2), (3, 6), (4, 8)])
def test_every_expert_gets_the_tokens_that_chose_it(ranks: int, num_experts: int, capacity: int | None) -> None:
    tokens = numbered(ranks, [7, 0, 3, 5][:ranks], num_experts, k=2)
    each = num_experts // ranks
    by_rank = simulated(ranks).run(there, tokens, num_experts, capacity)
    kept = [room_by_hand(experts, 99 if capacity is None else capacity) for _, experts in tokens]
    for rank, (rows, counts, own_kept, dropped, *_) in enumerate(by_rank):
        assert torch.equal(own_kept, kept[rank]) and dropped == int((~kept[rank]).sum())
        for expert, part in zip(range(rank * each, rank * each + each), rows.split(counts), strict=True):
            chose = [(experts == expert).logical_and(keep) for (_, experts), keep in zip(tokens, kept, strict=True)]
            wanted = [own[mask.any(dim=1)].tolist() for (own, _), mask in zip(tokens, chose, strict=True)]
            assert part.tolist() == sum(wanted, [])
    assert [sent for *_, sent, _ in by_rank] == [list(row) for row in zip(*(r for *_, r in by_rank), strict=True)]
    assert sum(dropped for *_, dropped, _, _ in by_rank) == sum(int((~keep).sum()) for keep in kept)


def test_messages_and_bytes() -> None:
    tokens, world = numbered(3, [7, 0, 3], 6, k=2), simulated(3)
    by_rank = world.run(there, tokens, 6, None)
    rows = [sum(count for to, count in enumerate(sent) if to != rank) for rank, (*_, sent, _) in enumerate(by_rank)]
    assert world.trace.messages_sent == [4] * 3
    assert world.trace.bytes_sent == [2 * 2 * 8 + count * 2 * 8 for count in rows]  # 2 counts to each of 2 ranks


# ── the layer ────────────────────────────────────────────────────────────────────────────────────────────────────────


def train(
    comm: Communicator, tokens: Tensors, num_experts: int, options: dict[str, Any], favourite: float
) -> dict[str, Any]:
    """Outputs, and the gradients of tokens, router and experts, for a loss that sums over all ranks' tokens."""
    layer = MixtureOfExperts(comm, FEATURES, HIDDEN, num_experts, dtype=DOUBLE, **options)
    layer.router.weight.data[0] += favourite
    own = tokens[comm.rank].clone().requires_grad_()
    output = layer(own)
    assert layer.routing is not None and layer.dispatched is not None
    balance = load_balancing_loss(layer.routing, comm)
    (output.pow(3).sum() + 5 * balance / comm.world_size).backward()
    sum_router_gradients(layer)
    gradients = [[parameter.grad for parameter in expert.parameters()] for expert in layer.experts]
    return {
        "output": output.detach(),
        "tokens": own.grad,
        "router": layer.router.weight.grad,
        "experts": gradients,
        "balance": balance.item(),
        "dropped": layer.dispatched.dropped,
        "counts": layer.dispatched.counts,
    }


def in_one_process(tokens: Tensors, num_experts: int, options: dict[str, Any], favourite: float) -> dict[str, Any]:
    """Token by token; every rank's tokens are a group with its own room."""
    options = dict(options)
    k, factor = options.pop("k", 2), options.pop("capacity_factor", None)
    router = TopKRouter(FEATURES, num_experts, k, dtype=DOUBLE, **options)
    router.weight.data[0] += favourite
    experts = [Expert(FEATURES, HIDDEN, 1 + number, DOUBLE) for number in range(num_experts)]
    inputs = [group.clone().requires_grad_() for group in tokens]
    outputs, dropped = [], []
    for group in inputs:
        routing = router(group)
        capacity = 10**6 if factor is None else expert_capacity(len(group), num_experts, k, factor)
        kept = room_by_hand(routing.experts, capacity)
        dropped.append(int((~kept).sum()))
        rows = [torch.zeros(FEATURES, dtype=DOUBLE) + 0 * group.sum() for _ in group]
        for token, choice in kept.nonzero().tolist():
            expert = experts[int(routing.experts[token, choice])]
            rows[token] = rows[token] + routing.weights[token, choice] * expert(group[token : token + 1])[0]
        outputs.append(torch.stack(rows) if rows else group * 0)
    chosen = router(torch.cat(inputs))
    shares = torch.bincount(chosen.experts.flatten(), minlength=num_experts).double() / chosen.experts.numel()
    balance = num_experts * (shares * chosen.probabilities.mean(dim=0)).sum()
    (sum(output.pow(3).sum() for output in outputs) + 5 * balance).backward()
    return {
        "outputs": [output.detach() for output in outputs],
        "tokens": [group.grad for group in inputs],
        "router": router.weight.grad,
        "experts": [
            [torch.zeros_like(p) if p.grad is None else p.grad for p in expert.parameters()] for expert in experts
        ],
        "balance": balance.item(),
        "dropped": dropped,
    }


def assert_equal_to_one_process(
    by_rank: list[dict[str, Any]], tokens: Tensors, num_experts: int, options: dict[str, Any], favourite: float = 0.0
) -> None:
    wanted = in_one_process(tokens, num_experts, options, favourite)
    each = num_experts // len(by_rank)
    for rank, found in enumerate(by_rank):
        close(found["output"], wanted["outputs"][rank])
        close(found["tokens"], wanted["tokens"][rank])
        close(found["router"], wanted["router"])
        for number, gradients in enumerate(found["experts"], rank * each):
            for one, other in zip(gradients, wanted["experts"][number], strict=True):
                close(one, other)
    assert [found["dropped"] for found in by_rank] == wanted["dropped"]
    assert sum(found["balance"] for found in by_rank) / len(by_rank) == pytest.approx(wanted["balance"], rel=1e-9)


OPTIONS: list[dict[str, Any]] = [
    {"k": 1, "renormalise": False},
    {"k": 2},
    {"k": 2, "renormalise": False, "capacity_factor": 1.0},
    {"k": 1, "renormalise": False, "capacity_factor": 0.5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("ranks", "num_experts"), [(1, 3), (2, 2), (2, 6), (3, 3), (4, 8), (5, 5)])
def test_outputs_and_gradients_equal_one_process(ranks: int, num_experts: int, options: dict[str, Any]) -> None:
    for seed, lengths in enumerate(([6] * 5, [1, 9, 0, 4, 2])):
        tokens = [drawn(lengths[rank], FEATURES, seed=10 * seed + rank) for rank in range(ranks)]
        by_rank = simulated(ranks).run(train, tokens, num_experts, options, 0.0)
        assert_equal_to_one_process(by_rank, tokens, num_experts, options)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_unbalanced_router(options: dict[str, Any]) -> None:
    tokens = [drawn(8, FEATURES, seed=rank) + 1 for rank in range(4)]
    by_rank = simulated(4).run(train, tokens, 4, options, 4.0)
    assert_equal_to_one_process(by_rank, tokens, 4, options, 4.0)
    counts = [sum(found["counts"]) for found in by_rank]
    assert max(counts) == counts[0] and by_rank[0]["balance"] > 1.2 * 4 / 4
    assert (sum(found["dropped"] for found in by_rank) > 0) == ("capacity_factor" in options)


def test_an_expert_without_tokens_has_gradients_of_zero() -> None:
    tokens = [torch.ones(5, FEATURES, dtype=DOUBLE)] * 3
    options = {"k": 1, "renormalise": False}
    by_rank = simulated(3).run(train, tokens, 3, options, 9.0)
    assert [found["counts"] for found in by_rank] == [[15], [0], [0]]
    assert_equal_to_one_process(by_rank, tokens, 3, options, 9.0)
    for gradient in by_rank[1]["experts"][0]:
        assert torch.equal(gradient, torch.zeros_like(gradient))


def test_a_token_without_room_comes_back_as_zeros_and_is_counted() -> None:
    tokens = [torch.ones(6, FEATURES, dtype=DOUBLE)] * 2
    by_rank = simulated(2).run(train, tokens, 2, {"k": 1, "renormalise": False, "capacity_factor": 1.0}, 9.0)
    for found in by_rank:
        assert found["dropped"] == 3
        assert found["output"].abs().sum(dim=1).gt(0).tolist() == [True] * 3 + [False] * 3


def test_real_ranks() -> None:
    tokens = [drawn(rank * 4 + 1, FEATURES, seed=rank) for rank in range(3)]
    with World(3) as world:
        for options in OPTIONS[1:3]:
            assert_equal_to_one_process(world.run(train, tokens, 6, options, 0.0), tokens, 6, options)


def test_a_batch_of_sequences_keeps_its_shape() -> None:
    def shapes(comm: Communicator) -> list[torch.Size]:
        layer = MixtureOfExperts(comm, FEATURES, HIDDEN, 2)
        return [layer(torch.zeros(2, 3, FEATURES)).shape, layer(torch.zeros(5, FEATURES)).shape]

    assert simulated(2).run(shapes) == [[(2, 3, FEATURES), (5, FEATURES)]] * 2


def test_an_expert_has_the_same_weights_on_any_number_of_ranks() -> None:
    def weights(comm: Communicator) -> list[Tensors]:
        layer = MixtureOfExperts(comm, FEATURES, HIDDEN, 6, seed=3)
        return [[parameter.detach() for parameter in expert.parameters()] for expert in layer.experts]

    (alone,) = simulated(1).run(weights)
    assert not torch.equal(alone[0][0], alone[1][0])
    for ranks in (2, 3):
        found = sum(simulated(ranks).run(weights), [])
        for one, other in zip(found, alone, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# ── the auxiliary loss ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_auxiliary_loss_is_1_in_balance_and_the_number_of_experts_at_most() -> None:
    balanced = route(10.0 * torch.eye(4).repeat(3, 1), 1)
    assert load_balancing_loss(balanced) == pytest.approx(1)
    one_for_all = route(torch.tensor([[50.0, 0, 0, 0]]).repeat(7, 1), 1)
    assert load_balancing_loss(one_for_all) == pytest.approx(4)


def test_training_with_the_auxiliary_loss_alone_balances_a_router() -> None:
    router, tokens = TopKRouter(FEATURES, 4, k=1, dtype=DOUBLE), drawn(200, FEATURES) + 1
    router.weight.data[0] += 2
    before = torch.bincount(router(tokens).experts.flatten(), minlength=4).max()
    optimizer = torch.optim.SGD(router.parameters(), lr=0.5)
    for _ in range(100):
        optimizer.zero_grad()
        load_balancing_loss(router(tokens)).backward()
        optimizer.step()
    after = torch.bincount(router(tokens).experts.flatten(), minlength=4).max()
    assert before > 180 and after < 80


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_the_slowest_rank_is_the_one_with_most_rows(ranks: int) -> None:
    cluster, per_row = Cluster.flat(ranks, Link(3e-6, 50e9)), 1e-6
    balanced = expert_seconds(cluster, [[512] * ranks] * ranks, 1024, per_row)
    row = [512 + 256 * (ranks - 1)] + [256] * (ranks - 1)  # half of what was for the others goes to rank 0
    unbalanced = expert_seconds(cluster, [row] * ranks, 1024, per_row)
    assert balanced.computing == pytest.approx([512 * ranks * per_row] * ranks)
    assert unbalanced.computing == pytest.approx([count * ranks * per_row for count in row])
    assert unbalanced.total > unbalanced.computing[0] > balanced.computing[0] * ranks / 2
    assert unbalanced.total > balanced.total * ranks / 2
    link = Link(3e-6, 50e9)
    assert balanced.total == pytest.approx(
        2 * (ranks - 1) * link.seconds(512 * 1024 * 2) + balanced.computing[0], rel=1e-9
    )


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────

T, E = torch.zeros(3, FEATURES), torch.zeros(3, 2, dtype=torch.int64)


def combined(comm: Communicator, outputs: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return combine(comm, dispatch_to_experts(comm, T, E, 2), outputs, weights)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda comm: dispatch_to_experts(comm, T, E, 3), "expected a number of experts that 2 ranks divide, got 3"),
        (lambda comm: dispatch_to_experts(comm, T, E + 4, 4), "expected experts from 0 to 3, got 4"),
        (lambda comm: dispatch_to_experts(comm, T, E - 1, 4), "expected experts from 0 to 3, got -1"),
        (lambda comm: dispatch_to_experts(comm, T, E.int(), 4), "expected int64 numbers as experts, got torch.int32"),
        (lambda comm: dispatch_to_experts(comm, T, E[:2], 4), "got shapes (3, 4) and (2, 2)"),
        (lambda comm: dispatch_to_experts(comm, T, E[:, 0], 4), "got shapes (3, 4) and (3,)"),
        (lambda comm: dispatch_to_experts(comm, None, E, 4), "expected a torch.Tensor as tokens, got None"),
        (lambda comm: dispatch_to_experts(comm, T, E, 4, -1), "as capacity, got capacity=-1"),
        (lambda comm: combined(comm, T, torch.zeros(3, 2)), "combine expected outputs ["),
        (
            lambda comm: combined(comm, torch.zeros(12 * (comm.rank == 0), 4), torch.zeros(3, 1)),
            "combine expected weights of shape (3, 2), as the choices, got (3, 1)",
        ),
        (lambda comm: combine(comm, T, T, T), "combine expected a Dispatched as dispatched"),
        (lambda comm: MixtureOfExperts(comm, 4, 4, 3), "expected a number of experts that 2 ranks divide, got 3"),
        (lambda comm: MixtureOfExperts(comm, 4, 4, 2, k=3), "expected an integer from 1 to 2 as k, got k=3"),
        (lambda comm: MixtureOfExperts(comm, 4, 4, 2, capacity_factor=0), "as capacity_factor"),
    ],
)
def test_bad_input(call: Callable[[Communicator], object], words: str) -> None:
    with pytest.raises(RankError) as caught:
        SimulatedWorld(2).run(call)
    assert words in str(caught.value)


def test_a_rank_that_leaves_out_backward_is_named() -> None:
    def incomplete(comm: Communicator) -> None:
        output = MixtureOfExperts(comm, FEATURES, HIDDEN, 2)(T)
        if comm.rank == 0:
            output.sum().backward()

    with pytest.raises(DeadlockError, match="combine_backward"):
        simulated(2).run(incomplete)


def test_ranks_that_disagree_about_the_experts_are_told() -> None:
    def disagree(comm: Communicator) -> None:
        dispatch_to_experts(comm, T, E, 2 + 2 * comm.rank)

    with pytest.raises(MessageMismatch) as caught:
        SimulatedWorld(2).run(disagree)
    assert "num_experts=2" in str(caught.value) and "num_experts=4" in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: route(torch.zeros(3), 1), "route expected scores [tokens, experts], got shape (3,)"),
        (lambda: route(torch.zeros(3, 2), 3), "route expected an integer from 1 to 2 as k, got k=3"),
        (lambda: expert_capacity(4, 0), "expert_capacity expected an integer of at least 1 as num_experts"),
        (lambda: expert_capacity(4, 2, 1, -1.0), "expert_capacity expected a number above 0 as factor"),
        (lambda: has_room(torch.zeros(3), 1), "has_room expected experts [tokens, k], got shape (3,)"),
        (lambda: expert_seconds(Cluster.flat(2), [[1, 2]], 4, 1.0), "expected 2 × 2 numbers of rows"),
    ],
)
def test_bad_numbers(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert words in str(caught.value)


def test_only_a_routing_has_a_balance() -> None:
    with pytest.raises(TypeError, match="expected a Routing as routing"):
        load_balancing_loss(torch.zeros(3, 2))  # type: ignore[arg-type]
    assert isinstance(route(torch.zeros(3, 2), 1), Routing) and isinstance(TopKRouter(2, 2), nn.Module)
