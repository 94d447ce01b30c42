"""Tensor parallelism: equal to the whole layer, values and gradients; its messages and bytes; what it refuses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu

from distlib import Communicator, RankError, SimulatedWorld, World
from distlib.network import Cluster, Link, duration
from distlib.network.traffic import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from distlib.trace import Trace
from distlib.training.tensor_parallel import (
    ColumnParallelLinear,
    GroupedQueryAttention,
    ParallelAttention,
    ParallelMLP,
    ParallelTransformerLayer,
    RowParallelLinear,
    VocabularyParallelEmbedding,
    copy_to_ranks,
    gather_sequence,
    layer_stretches,
    scatter_sum,
    split_sequence,
    sum_over_ranks,
    sum_sequence_gradients,
    vocabulary_parallel_cross_entropy,
)

BATCH, SEQUENCE, FEATURES, HIDDEN, HEADS, VOCABULARY = 2, 4, 8, 12, 4, 20
NUMBERS = BATCH * SEQUENCE * FEATURES  # of one activation
DOUBLE = torch.float64
SIZES = [1, 2, 4]


def simulated(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")


def activations(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, SEQUENCE, FEATURES, dtype=DOUBLE, generator=generator)


def close(found: torch.Tensor | None, expected: torch.Tensor | None) -> None:
    assert found is not None and expected is not None
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def by_call(trace: Trace, name: str) -> Trace:
    return trace.filter(lambda message: (message.site.call or "").startswith(name))


# ── the operators ────────────────────────────────────────────────────────────────────────────────────────────────────


def through(comm: Communicator, operator: Callable[..., torch.Tensor], given: torch.Tensor) -> list[torch.Tensor]:
    """The result of an operator, and the gradient of its input when each rank's gradient is its number + 1."""
    inputs = given.clone().requires_grad_()
    output = operator(comm, inputs)
    output.backward(torch.full_like(output, comm.rank + 1.0))
    assert inputs.grad is not None
    return [output.detach(), inputs.grad]


def test_copy_and_sum_are_conjugate() -> None:
    for output, gradient in simulated(3).run(through, copy_to_ranks, activations()):
        close(output, activations())
        close(gradient, torch.full_like(output, 6.0))
    for rank, (output, gradient) in enumerate(simulated(3).run(through, sum_over_ranks, activations())):
        close(output, 3 * activations())
        close(gradient, torch.full_like(output, rank + 1.0))


def test_gather_and_scatter_are_conjugate() -> None:
    whole = activations()

    def gather(comm: Communicator) -> list[torch.Tensor]:
        return through(comm, gather_sequence, split_sequence(comm, whole))

    for output, gradient in simulated(2).run(gather):
        close(output, whole)
        close(gradient, torch.full((BATCH, SEQUENCE // 2, FEATURES), 3.0, dtype=DOUBLE))
    for rank, (output, gradient) in enumerate(simulated(2).run(through, scatter_sum, whole)):
        close(output, 2 * whole[:, 2 * rank : 2 * rank + 2])
        close(gradient[:, :2], torch.ones(BATCH, 2, FEATURES, dtype=DOUBLE))
        close(gradient[:, 2:], torch.full((BATCH, 2, FEATURES), 2.0, dtype=DOUBLE))


# ── the layers, one by one ───────────────────────────────────────────────────────────────────────────────────────────


def run_layer(
    comm: Communicator, kind: Callable[..., Any], whole: nn.Linear, inputs: torch.Tensor
) -> dict[str, torch.Tensor | None]:
    layer = kind(comm, whole.in_features, whole.out_features, dtype=DOUBLE)
    layer.load_whole(whole.weight, whole.bias)
    own = inputs.clone().requires_grad_()
    given = own[..., layer.columns] if kind is RowParallelLinear else own
    output = layer(given)
    output.square().sum().backward()
    return {"output": output.detach(), "weight": layer.weight.grad, "bias": layer.bias.grad, "inputs": own.grad}


@pytest.mark.parametrize("ranks", SIZES)
def test_a_column_parallel_layer(ranks: int) -> None:
    whole, inputs = nn.Linear(FEATURES, HIDDEN).double(), activations().requires_grad_()
    output = whole(inputs)
    output.square().sum().backward()
    assert whole.weight.grad is not None and whole.bias.grad is not None
    for rank, found in enumerate(simulated(ranks).run(run_layer, ColumnParallelLinear, whole, inputs.detach())):
        close(found["output"], output.detach().tensor_split(ranks, dim=-1)[rank])
        close(found["weight"], whole.weight.grad.tensor_split(ranks)[rank])
        close(found["bias"], whole.bias.grad.tensor_split(ranks)[rank])
        close(found["inputs"], inputs.grad)


@pytest.mark.parametrize("ranks", SIZES)
def test_a_row_parallel_layer(ranks: int) -> None:
    whole, inputs = nn.Linear(FEATURES, HIDDEN).double(), activations().requires_grad_()
    output = whole(inputs)
    output.square().sum().backward()
    assert whole.weight.grad is not None and inputs.grad is not None
    for rank, found in enumerate(simulated(ranks).run(run_layer, RowParallelLinear, whole, inputs.detach())):
        close(found["output"], output.detach())
        close(found["weight"], whole.weight.grad.tensor_split(ranks, dim=1)[rank])
        close(found["bias"], whole.bias.grad)
        own = torch.zeros_like(inputs)
        part = slice(rank * FEATURES // ranks, (rank + 1) * FEATURES // ranks)
        own[..., part] = inputs.grad[..., part]
        close(found["inputs"], own.detach())


def test_a_weight_depends_on_its_seed_and_not_on_the_cut() -> None:
    def weights(comm: Communicator) -> list[torch.Tensor]:
        column = ColumnParallelLinear(comm, FEATURES, HIDDEN, seed=3, dtype=DOUBLE)
        row = RowParallelLinear(comm, FEATURES, HIDDEN, seed=3, dtype=DOUBLE)
        assert column.bias is not None
        return [column.weight.detach(), column.bias.detach(), row.weight.detach()]

    ((whole, bias, _),) = simulated(1).run(weights)
    assert whole.abs().max() <= FEATURES**-0.5 and whole.std() > 0.1
    for ranks in (2, 4):
        parts = simulated(ranks).run(weights)
        assert torch.equal(torch.cat([part[0] for part in parts]), whole)
        assert torch.equal(torch.cat([part[1] for part in parts]), bias)
        assert torch.equal(torch.cat([part[2] for part in parts], dim=1), whole)


# ── a transformer layer ──────────────────────────────────────────────────────────────────────────────────────────────


def torch_layer(seed: int = 0) -> nn.TransformerEncoderLayer:
    torch.manual_seed(seed)
    return nn.TransformerEncoderLayer(
        FEATURES, HEADS, HIDDEN, dropout=0.0, activation=gelu, batch_first=True, norm_first=True, dtype=DOUBLE
    )


def own_parts(comm: Communicator, whole: nn.TransformerEncoderLayer, sequence: bool) -> dict[str, torch.Tensor]:
    """The parameters that a rank should have, by the names that they have in our layer."""
    layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, sequence=sequence, dtype=DOUBLE)
    layer.load_whole(whole)
    return {name: parameter.detach() for name, parameter in layer.named_parameters()}


def train_layer(
    comm: Communicator, start: nn.TransformerEncoderLayer, end: nn.TransformerEncoderLayer, sequence: bool, causal: bool
) -> float:
    """Ten steps; returns the largest difference from what the whole layer has become."""
    layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, sequence=sequence, causal=causal, dtype=DOUBLE)
    layer.load_whole(start)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    for step in range(10):
        inputs = activations(step)
        optimizer.zero_grad()
        output = layer(split_sequence(comm, inputs) if sequence else inputs)
        (output.square().sum() / NUMBERS).backward()
        if sequence:
            sum_sequence_gradients(comm, layer)
        optimizer.step()
    expected = own_parts(comm, end, sequence)
    return max(float((p.detach() - expected[name]).abs().max()) for name, p in layer.named_parameters())


def train_whole(causal: bool) -> tuple[nn.TransformerEncoderLayer, nn.TransformerEncoderLayer]:
    start, layer = torch_layer(), torch_layer()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE, dtype=DOUBLE) if causal else None
    for step in range(10):
        optimizer.zero_grad()
        (layer(activations(step), src_mask=mask, is_causal=causal).square().sum() / NUMBERS).backward()
        optimizer.step()
    return start, layer


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize(("sequence", "causal"), [(False, False), (False, True), (True, False)])
def test_ten_steps_of_a_transformer_layer_equal_torchs(ranks: int, sequence: bool, causal: bool) -> None:
    start, end = train_whole(causal)
    assert not torch.allclose(start.linear1.weight, end.linear1.weight, atol=1e-3)
    assert max(simulated(ranks).run(train_layer, start, end, sequence, causal)) <= 1e-9


@pytest.mark.parametrize("sequence", [False, True])
def test_real_ranks(sequence: bool) -> None:
    start, end = train_whole(causal=False)
    with World(2) as world:
        assert max(world.run(train_layer, start, end, sequence, False)) <= 1e-9


def test_every_rank_has_its_part_only() -> None:
    def numbers(comm: Communicator) -> dict[str, int]:
        layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS)
        return {name: parameter.numel() for name, parameter in layer.named_parameters() if parameter.ndim == 2}

    whole = {name: 4 * count for name, count in simulated(4).run(numbers)[3].items()}
    assert whole == simulated(1).run(numbers)[0]
    assert sum(whole.values()) == 4 * FEATURES**2 + 2 * FEATURES * HIDDEN


# ── fewer heads of keys and values ───────────────────────────────────────────────────────────────────────────────────


def train_grouped(comm: Communicator, kv_heads: int, adds: bool = True) -> tuple[torch.Tensor, torch.Tensor, range]:
    """Three steps: the last output, the weights of keys and values at the end, and whose heads they are."""
    attention = GroupedQueryAttention(comm, FEATURES, HEADS, kv_heads, causal=True, dtype=DOUBLE)
    optimizer = torch.optim.SGD(attention.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        output = attention(activations(step).requires_grad_())
        output.pow(3).sum().backward()
        if adds:
            attention.sum_shared_gradients()
        optimizer.step()
    shared = attention.weight.detach()[attention.heads * attention.head_features :]
    return output.detach(), shared.unflatten(0, (2, -1, attention.head_features)), attention.own_kv_heads


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries_equal_one_rank_whether_heads_are_cut_or_copied(ranks: int, kv_heads: int) -> None:
    ((wanted, weights, _),) = simulated(1).run(train_grouped, kv_heads)
    for output, own, heads in simulated(ranks).run(train_grouped, kv_heads):
        assert len(heads) == max(1, kv_heads // ranks)
        close(output, wanted)
        close(own, weights[:, heads.start : heads.stop])


def test_copies_of_a_head_drift_apart_where_their_gradients_are_not_added_up() -> None:
    for kv_heads, drifts in ((4, False), (2, True)):
        by_rank = simulated(4).run(train_grouped, kv_heads, adds=False)
        ((_, weights, _),) = simulated(1).run(train_grouped, kv_heads)
        off = max(float((own - weights[:, h.start : h.stop]).abs().max()) for _, own, h in by_rank)
        assert (off > 1e-3) == drifts


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries_send_what_attention_sends_and_the_gradients_of_copies(kv_heads: int) -> None:
    world, size = simulated(4), FEATURES // HEADS
    world.run(train_grouped, kv_heads)
    sharing = 4 // kv_heads
    copies = ring_all_reduce(sharing, 2 * size * FEATURES, 8).nbytes[0] if sharing > 1 else 0
    assert world.trace.bytes_sent == [3 * (2 * ring_all_reduce(4, NUMBERS, 8).nbytes[0] + copies)] * 4


# ── messages and bytes ───────────────────────────────────────────────────────────────────────────────────────────────


def forward_and_backward(comm: Communicator, kind: str, sequence: bool, backward: bool = True) -> None:
    blocks: dict[str, Callable[[], nn.Module]] = {
        "mlp": lambda: ParallelMLP(comm, FEATURES, HIDDEN, sequence=sequence, dtype=DOUBLE),
        "attention": lambda: ParallelAttention(comm, FEATURES, HEADS, sequence=sequence, dtype=DOUBLE),
        "layer": lambda: ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, sequence=sequence, dtype=DOUBLE),
    }
    inputs = activations()
    inputs = (split_sequence(comm, inputs) if sequence else inputs).clone().requires_grad_()
    output = blocks[kind]()(inputs)
    if backward:
        output.sum().backward()


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("kind", "forward", "both"), [("mlp", 1, 2), ("attention", 1, 2), ("layer", 2, 4)])
def test_all_reduces_of_a_block(kind: str, forward: int, both: int, ranks: int) -> None:
    one = ring_all_reduce(ranks, NUMBERS, 8)
    for times, backward in ((forward, False), (both, True)):
        world = simulated(ranks)
        world.run(forward_and_backward, kind, False, backward)
        assert len(by_call(world.trace, "all_reduce")) == len(world.trace)
        assert world.trace.messages_sent == [times * count for count in one.messages]
        assert world.trace.bytes_sent == [times * nbytes for nbytes in one.nbytes]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("kind", ["mlp", "attention", "layer"])
def test_sequence_parallelism_sends_the_same_bytes(kind: str, ranks: int) -> None:
    world, in_sequence = simulated(ranks), simulated(ranks)
    world.run(forward_and_backward, kind, False)
    in_sequence.run(forward_and_backward, kind, True)
    assert in_sequence.trace.bytes_sent == world.trace.bytes_sent
    assert in_sequence.trace.messages_sent == world.trace.messages_sent
    times = 4 if kind == "layer" else 2
    halves = [("all_gather", ring_all_gather), ("reduce_scatter", ring_reduce_scatter)]
    for name, traffic in halves:
        expected = [times * nbytes for nbytes in traffic(ranks, NUMBERS, 8).nbytes]
        assert by_call(in_sequence.trace, name).bytes_sent == expected


def test_gradients_outside_the_blocks_are_summed_in_one_all_reduce() -> None:
    def step(comm: Communicator) -> None:
        layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, sequence=True, dtype=DOUBLE)
        layer(split_sequence(comm, activations())).sum().backward()
        sum_sequence_gradients(comm, layer)

    world = simulated(2)
    world.run(step)
    norms_and_biases = 2 * 2 * FEATURES + 2 * FEATURES
    assert by_call(world.trace, "all_reduce").bytes_sent == ring_all_reduce(2, norms_and_biases, 8).nbytes


# ── the vocabulary ───────────────────────────────────────────────────────────────────────────────────────────────────


def tokens(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=torch.Generator().manual_seed(seed))
    return drawn[:, :-1], drawn[:, 1:]


class TinyGPT(nn.Module):
    """Embedding, one layer, and the embedding's weight again for the scores."""

    def __init__(self, comm: Communicator) -> None:
        super().__init__()
        self.comm = comm
        self.embedding = VocabularyParallelEmbedding(comm, VOCABULARY, FEATURES, seed=0, dtype=DOUBLE)
        self.layer = ParallelTransformerLayer(comm, FEATURES, HIDDEN, HEADS, causal=True, seed=1, dtype=DOUBLE)

    def forward(self, given: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        scores = self.embedding.scores(self.layer(self.embedding(given)))
        return vocabulary_parallel_cross_entropy(self.comm, scores, following)


def train_gpt(comm: Communicator) -> tuple[list[float], list[torch.Tensor]]:
    model = TinyGPT(comm)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(10):
        optimizer.zero_grad()
        loss = model(*tokens(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [model.embedding.weight.detach(), model.layer.mlp.down.weight.detach()]


@pytest.mark.parametrize("ranks", [2, 4])
def test_ten_steps_of_a_language_model_equal_one_rank(ranks: int) -> None:
    ((losses, (embedding, down)),) = simulated(1).run(train_gpt)
    parts = simulated(ranks).run(train_gpt)
    for found, _ in parts:
        assert found == pytest.approx(losses, abs=1e-9)
    close(torch.cat([part[0] for _, part in parts]), embedding)
    close(torch.cat([part[1] for _, part in parts], dim=1), down)


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize(("scale", "masked"), [(1, False), (1000, False), (1, True)])
def test_cross_entropy_and_its_gradient_equal_torchs(ranks: int, scale: float, masked: bool) -> None:
    """Also where the first token of each rank, and some others, are masked by a score of -inf."""
    scores = scale * torch.randn(BATCH, SEQUENCE, VOCABULARY, dtype=DOUBLE, generator=torch.Generator().manual_seed(5))
    if masked:
        scores[..., ::5] = scores[..., 1] = -torch.inf
        scores.scatter_(-1, tokens()[1].unsqueeze(-1), 0.5)
    scores.requires_grad_()
    targets = tokens()[1]
    expected = cross_entropy(scores.flatten(0, 1), targets.flatten())
    expected.backward()
    assert scores.grad is not None

    def run(comm: Communicator, whole: torch.Tensor) -> list[torch.Tensor]:
        own = whole.tensor_split(comm.world_size, dim=-1)[comm.rank].clone().requires_grad_()
        loss = vocabulary_parallel_cross_entropy(comm, own, targets)
        loss.backward()
        assert own.grad is not None
        return [loss.detach(), own.grad]

    world = simulated(ranks)
    for rank, (loss, gradient) in enumerate(world.run(run, scores.detach())):
        close(loss, expected.detach())
        close(gradient, scores.grad.tensor_split(ranks, dim=-1)[rank])
    count = BATCH * SEQUENCE
    wanted = ring_all_reduce(ranks, count, 8) + ring_all_reduce(ranks, 2 * count, 8)
    assert world.trace.bytes_sent == wanted.nbytes


def test_an_embedding_and_its_gradient_equal_torchs() -> None:
    weight = torch.randn(VOCABULARY, FEATURES, dtype=DOUBLE, generator=torch.Generator().manual_seed(5))
    whole = nn.Embedding.from_pretrained(weight, freeze=False)
    whole(tokens()[0]).square().sum().backward()

    def run(comm: Communicator) -> list[torch.Tensor | None]:
        ours = VocabularyParallelEmbedding(comm, VOCABULARY, FEATURES, dtype=DOUBLE)
        ours.load_whole(weight)
        output = ours(tokens()[0])
        output.square().sum().backward()
        return [output.detach(), ours.weight.grad]

    world = simulated(4)
    for rank, (output, gradient) in enumerate(world.run(run)):
        close(output, weight[tokens()[0]])
        assert whole.weight.grad is not None
        close(gradient, whole.weight.grad.tensor_split(4)[rank])
    assert world.trace.bytes_sent == ring_all_reduce(4, NUMBERS, 8).nbytes


def test_a_layer_in_virtual_time_computes_and_sends_four_all_reduces() -> None:
    cluster = Cluster.flat(4, Link(5e-6, 12.5e9))
    stretches = layer_stretches(cluster, (2, 8, 16), seconds=0.004)
    assert [stretch.kind for stretch in stretches] == [
        kind for computing in ("forward", "forward", "backward", "backward") for kind in (computing, "communication")
    ]
    ends = [0.0, *(stretch.end for stretch in stretches)]
    assert [stretch.start for stretch in stretches] == ends[:-1]
    each = duration.ring_all_reduce(cluster, 2 * 8 * 16, 2)
    assert ends[-1] == pytest.approx(3 * 0.004 / 4 + 4 * each, rel=1e-9)


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda comm: ParallelAttention(comm, 8, 4), "a number of heads that 3 ranks divide, got 4"),
        (lambda comm: ParallelAttention(comm, 8, 3), "a number of features that 3 heads divide, got 8"),
        (lambda comm: ParallelMLP(comm, 8, 10), "a number of hidden features that 3 ranks divide, got 10"),
        (lambda comm: VocabularyParallelEmbedding(comm, 20, 8), "a number of tokens that 3 ranks divide, got 20"),
        (lambda comm: ColumnParallelLinear(comm, 8, 10), "a number of output features that 3 ranks divide, got 10"),
        (lambda comm: ColumnParallelLinear(comm, 8, 9, sections=2), "output features that 2 sections divide, got 9"),
        (lambda comm: RowParallelLinear(comm, 8, 9), "a number of input features that 3 ranks divide, got 8"),
        (lambda comm: GroupedQueryAttention(comm, 12, 6, 4), "divides 6 heads, got 4"),
        (lambda comm: GroupedQueryAttention(comm, 12, 12, 2), "that 3 ranks divide, or that divides them, got 2"),
        (lambda comm: split_sequence(comm, activations()), "positions in the sequence that 3 ranks divide, got 4"),
    ],
)
def test_what_the_ranks_do_not_divide(build: Callable[[Communicator], object], words: str) -> None:
    with pytest.raises(RankError, match=words):
        SimulatedWorld(3).run(build)


def test_targets_that_do_not_fit() -> None:
    def loss(comm: Communicator, targets: torch.Tensor) -> None:
        vocabulary_parallel_cross_entropy(comm, torch.zeros(2, 5), targets)

    with pytest.raises(RankError, match="expected targets from 0 to 9, got 3 to 10"):
        SimulatedWorld(2).run(loss, torch.tensor([3, 10]))
    with pytest.raises(RankError, match=r"a target for each row of scores, \[2\], got \[3\]"):
        SimulatedWorld(2).run(loss, torch.tensor([3, 4, 5]))


def test_scores_of_one_position() -> None:
    scores = torch.arange(6.0)

    def loss(comm: Communicator) -> torch.Tensor:
        return vocabulary_parallel_cross_entropy(comm, scores.chunk(2)[comm.rank], torch.tensor(4))

    for found in SimulatedWorld(2).run(loss, timeout=60):
        torch.testing.assert_close(found, cross_entropy(scores, torch.tensor(4)))


def test_scores_without_a_dimension() -> None:
    def loss(comm: Communicator) -> None:
        vocabulary_parallel_cross_entropy(comm, torch.tensor(1.0), torch.tensor(0))

    with pytest.raises(RankError, match=r"scores of the shape \[…, vocabulary / ranks\], got a single number"):
        SimulatedWorld(2).run(loss, timeout=60)


@pytest.mark.parametrize(("numbers", "came"), [([3, 10], "3 to 10"), ([-1, 2], "-1 to 2")])
def test_tokens_that_do_not_exist(numbers: list[int], came: str) -> None:
    def embed(comm: Communicator) -> None:
        VocabularyParallelEmbedding(comm, 10, 4)(torch.tensor(numbers))

    with pytest.raises(RankError, match=f"expected tokens from 0 to 9, got {came}"):
        SimulatedWorld(2).run(embed, timeout=60)
