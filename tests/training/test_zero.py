"""ZeRO: equal to one process at every stage, to the digit; its messages and bytes; what it refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from distlib import Cluster, Communicator, Link, MessageMismatch, RankError, SimulatedWorld, World
from distlib.network import duration
from distlib.training.ddp import Span
from distlib.training.zero import (
    FullyShardedModule,
    MemoryAccount,
    ShardedGradients,
    ShardedOptimizer,
    bytes_sent_by_stage,
    check_elementwise,
    clip_gradients,
    first_stage_within,
    load_shards,
    memory_by_stage,
    padded_bytes_by_stage,
    play_step,
    save_shards,
    stage_plan,
    step_plan,
)
from distlib.training.zero.unit_choice import group_parameters

DOUBLE = torch.float64
STEPS = 10


def simulated(ranks: int) -> SimulatedWorld:
    return SimulatedWorld(ranks, contexts="threads")


class Tied(nn.Module):
    """An embedding that is the output layer as well, two blocks between, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 5)) for _ in range(3))
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden * self.scale)


def make_model(seed: int = 0) -> Tied:
    torch.manual_seed(seed)
    return Tied().to(DOUBLE)


def batch(step: int, rank: int | None, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch of a step, or a rank's part of it."""
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(7, (60, 2), generator=generator)
    mine = tokens if rank is None else tokens.view(ranks, -1, 2)[rank]
    return mine[:, 0], mine[:, 1]


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
}


def alone(optimizer: str, max_norm: float | None = None) -> tuple[list[float], dict[str, torch.Tensor]]:
    """Losses and parameters of one process."""
    model = make_model()
    kind, options = OPTIMIZERS[optimizer]
    steps = kind(model.parameters(), **options)  # type: ignore[call-arg]
    losses = []
    for step in range(STEPS):
        tokens, labels = batch(step, None, 1)
        loss = cross_entropy(model(tokens), labels)
        steps.zero_grad()
        loss.backward()
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        steps.step()
        losses.append(loss.item())
    return losses, {name: each.detach().clone() for name, each in model.state_dict().items()}


def train(
    comm: Communicator, stage: int, optimizer: str, max_norm: float | None = None, **options: Any
) -> tuple[list[float], dict[str, torch.Tensor]]:
    model = make_model(comm.rank)
    kind, defaults = OPTIMIZERS[optimizer]
    steps: Any
    if stage == 3:
        wrapped: Any = FullyShardedModule(comm, model, units=model.blocks, **options)
        steps, clip = kind(wrapped.parameters(), **defaults), wrapped.clip_grad_norm  # type: ignore[call-arg]
    else:
        wrapped = model
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        steps = maker(comm, model, kind, units=model.blocks, **defaults, **options)
        clip = steps.clip_grad_norm
    losses = []
    for step in range(STEPS):
        tokens, labels = batch(step, comm.rank, comm.world_size)
        loss = cross_entropy(wrapped(tokens), labels)
        steps.zero_grad()
        loss.backward()
        if max_norm is not None:
            clip(max_norm)
        steps.step()
        losses.append(loss.item())
    return losses, {name: each.clone() for name, each in wrapped.state_dict().items()}


def equal_to_one_process(
    found: list[tuple[list[float], dict[str, torch.Tensor]]], expected: tuple[list[float], dict[str, torch.Tensor]]
) -> None:
    mean = torch.tensor([losses for losses, _ in found], dtype=DOUBLE).mean(0)
    torch.testing.assert_close(mean, torch.tensor(expected[0], dtype=DOUBLE), rtol=0, atol=1e-9)
    for _, parameters in found:
        torch.testing.assert_close(parameters, expected[1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_ten_steps_are_those_of_one_process(stage: int, ranks: int) -> None:
    equal_to_one_process(simulated(ranks).run(train, stage, "adamw"), alone("adamw"))


# ── ways to train ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_norm_is_that_of_all_parameters(stage: int) -> None:
    """Small enough to clip in every step; 5 ranks, so that every unit is padded."""
    equal_to_one_process(simulated(5).run(train, stage, "sgd", 0.05), alone("sgd", 0.05))


@pytest.mark.parametrize("largest", [0.1, 10.0, torch.inf, torch.nan])
def test_gradients_are_clipped_as_by_torch(largest: float) -> None:
    """Below the limit, above it, and with a number that is not finite, which then spoils the gradients of all ranks."""
    gradients = torch.tensor([[0.1, -0.2], [0.3, largest]])

    def clip(comm: Communicator) -> torch.Tensor:
        shard = nn.Parameter(torch.zeros(2))
        shard.grad = gradients[comm.rank].clone()
        clip_gradients(comm, [shard], max_norm=1.0)
        return shard.grad

    whole = nn.Parameter(torch.zeros(2, 2))
    whole.grad = gradients.clone()
    nn.utils.clip_grad_norm_(whole, max_norm=1.0)
    torch.testing.assert_close(torch.stack(simulated(2).run(clip)), whole.grad, equal_nan=True)


@pytest.mark.parametrize("stage", [1, 2])
def test_gradients_are_dropped_or_filled_with_zeros(stage: int) -> None:
    def drop(comm: Communicator, **options: bool) -> list[float | None]:
        model = Blocks()
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        optimizer = maker(comm, model, torch.optim.SGD, units=model.blocks, lr=0.1)
        model(rows(comm, 0)).sum().backward()
        optimizer.average_gradients()
        optimizer.zero_grad(**options)
        return [None if unit.shard.grad is None else float(unit.shard.grad.norm()) for unit in optimizer.units]

    assert simulated(2).run(drop) == simulated(2).run(drop, set_to_none=True) == [[None] * 3] * 2
    assert simulated(2).run(drop, set_to_none=False) == [[0.0] * 3] * 2


@pytest.mark.parametrize("options", [{"reshard_after_forward": True}, {"reshard_after_forward": False}])
@pytest.mark.parametrize("prefetch", [True, False])
def test_when_units_are_gathered_does_not_matter(options: dict[str, Any], prefetch: bool) -> None:
    equal_to_one_process(simulated(2).run(train, 3, "adamw", prefetch=prefetch, **options), alone("adamw"))


def test_real_processes_compute_the_same() -> None:
    with World(2) as world:
        for stage in (1, 2, 3):
            equal_to_one_process(world.run(train, stage, "adamw", timeout=120), alone("adamw"))


class Block(nn.Module):
    """A layer that may be left out, in whole or in part, and that may be computed again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, inputs: torch.Tensor, bias: bool = True) -> torch.Tensor:
        return torch.tanh(self.layer(inputs) if bias else inputs @ self.layer.weight)


class Blocks(nn.Module):
    """Three blocks; `uses` says which of them compute, and in which order."""

    def __init__(self, uses: tuple[int, ...] = (0, 1, 2), checkpointed: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(3)).to(DOUBLE)
        self.uses, self.checkpointed = uses, checkpointed

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for number in self.uses:
            block = self.blocks[number]
            inputs = checkpoint(block, inputs, use_reentrant=False) if self.checkpointed else block(inputs)
        return inputs


def rows(comm: Communicator | None, step: int) -> torch.Tensor:
    everything = torch.randn(12, 6, dtype=DOUBLE, generator=torch.Generator().manual_seed(step))
    return everything if comm is None else everything.view(comm.world_size, -1, 6)[comm.rank]


def train_blocks(comm: Communicator | None, uses: tuple[int, ...], checkpointed: bool, microbatches: int) -> Any:
    """Parameters after 3 steps, with stage 3 where there is a communicator."""
    model: Any = Blocks(uses, checkpointed)
    if comm is not None:
        model = FullyShardedModule(comm, model, units=model.blocks, reshard_after_forward=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        for number in range(microbatches):
            (model(rows(comm, 10 * step + number)).square().mean() / microbatches).backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


class SharedLayer(nn.Module):
    """Two children with one layer in both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        shared = nn.Linear(6, 6)
        self.first = nn.Sequential(shared, nn.Tanh(), nn.Linear(6, 6))
        self.second = nn.Sequential(shared, nn.Tanh())
        self.to(DOUBLE)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(inputs))


def train_a_shared_layer(comm: Communicator | None) -> Any:
    model: Any = SharedLayer()
    if comm is not None:
        model = FullyShardedModule(comm, model, reshard_after_forward=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(3):
        optimizer.zero_grad()
        model(rows(comm, step)).square().mean().backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def test_a_layer_in_two_units_is_the_roots() -> None:
    names = [name for name, _, _ in group_parameters(SharedLayer())]
    assert names == ["root", "first"]
    for found in simulated(2).run(train_a_shared_layer):
        torch.testing.assert_close(found, train_a_shared_layer(None), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("uses", "checkpointed", "microbatches"),
    [((0, 1, 2), True, 1), ((0, 1, 0, 2), False, 1), ((0, 1, 2), False, 3)],
    ids=["checkpointed", "a block twice", "accumulated"],
)
def test_stage_3_with(uses: tuple[int, ...], checkpointed: bool, microbatches: int) -> None:
    expected = train_blocks(None, uses, checkpointed, microbatches)
    for found in simulated(3).run(train_blocks, uses, checkpointed, microbatches):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


# ── bytes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

LENGTHS = [42, 42, 42]  # of the blocks, in their order


def account_of_a_step(comm: Communicator, stage: int) -> tuple[dict[str, int], dict[str, int]]:
    """What is alive after the second backward pass, and at most in that step."""
    model: Any = Blocks()
    if stage == 3:
        model = FullyShardedModule(comm, model, units=model.blocks, reshard_after_forward=True)
        optimizer: Any = torch.optim.Adam(model.parameters())
    else:
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        optimizer = maker(comm, model, torch.optim.Adam, units=model.blocks)
    for step in range(2):  # the first makes the optimizer's states
        optimizer.zero_grad()
        with MemoryAccount(comm, model, optimizer) as account:
            model(rows(comm, step)).square().mean().backward()
            alive = account.now()
        optimizer.step()
    return alive, dict(account.peak.bytes)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_bytes_kept_and_sent_are_those_of_the_formulas(stage: int) -> None:
    world = simulated(4)
    expected = padded_bytes_by_stage(LENGTHS, 4, param_itemsize=8, master_itemsize=8)[stage]
    for alive, peak in world.run(account_of_a_step, stage):
        assert alive["activations"] == alive["communication buffers"] == 0
        steps_made = 4 * len(LENGTHS)  # Adam counts the steps of each shard, in a number of 4 bytes
        assert {kind: alive[kind] for kind in expected} == expected | {
            "optimizer states": expected["optimizer states"] + steps_made
        }
        assert peak["parameters"] <= expected["parameters"] + (2 * 44 * 8 if stage == 3 else 0), "at most two units"
    named = world.trace.filter(lambda message: " of unit " in (message.site.call or ""))
    sent = named.filter(lambda message: not (message.site.call or "").startswith("broadcast")).bytes_sent
    per_step = bytes_sent_by_stage(
        LENGTHS, 4, param_itemsize=8, reduce_itemsize=8, reshard_after_forward=True if stage == 3 else None
    )[stage]
    assert sent == [2 * per_step] * 4


def test_the_figures_of_the_paper() -> None:
    kept = [sum(kinds.values()) / 1e9 for kinds in memory_by_stage(7_500_000_000, 64)]
    assert kept == pytest.approx([120, 31.4, 16.6, 1.88], rel=3e-3)
    assert first_stage_within(20e9, memory_by_stage(7_500_000_000, 64)) == 2
    with pytest.raises(ValueError, match="no stage fits into 10 bytes: stage 3 keeps 4,000, which is 3,990 more"):
        first_stage_within(10, memory_by_stage(1000, 4))


@pytest.mark.parametrize(("reshard", "gathers"), [(True, 10), (None, 9), (False, 5)])
def test_a_plan_gathers_as_often_as_torch(reshard: bool | None, gathers: int) -> None:
    plan = step_plan(5, reshard_after_forward=reshard, root=True)
    assert [action.kind for action in plan].count("G") == gathers
    assert [action.kind for action in plan].count("R") == 5


def test_a_played_step_sends_what_the_formula_says() -> None:
    world = SimulatedWorld(4)
    world.run(play_step, step_plan(3, reshard_after_forward=True), LENGTHS)
    expected = bytes_sent_by_stage(LENGTHS, 4, param_itemsize=2, reduce_itemsize=4, reshard_after_forward=True)[3]
    assert world.trace.bytes_sent == [expected] * 4


@pytest.mark.parametrize(
    ("gather", "reduce"), [("ring", "ring"), ("recursive_doubling", "recursive_halving"), ("bruck", "ring")]
)
@pytest.mark.parametrize("ranks", [4, 6])
def test_a_played_step_takes_what_the_formulas_say(ranks: int, gather: str, reduce: str) -> None:
    """Without computing the collectives follow one another; what is computed meanwhile is hidden behind them."""
    plan = step_plan(3, reshard_after_forward=True)
    world = SimulatedWorld(ranks, Cluster.flat(ranks, Link(1e-6, 1e9)))
    lengths = [600, 1200, 600]  # which divide
    options = {"all_gather": gather, "reduce_scatter": reduce}
    gathers = [getattr(duration, f"{gather}_all_gather")(world.cluster, length, 2) for length in lengths]
    reductions = [getattr(duration, f"{reduce}_reduce_scatter")(world.cluster, length, 4) for length in lengths]
    expected = 2 * sum(gathers) + sum(reductions)
    assert max(world.run(play_step, plan, lengths, **options)) == pytest.approx(expected, rel=1e-9)
    computing = min(gathers + reductions) / 2
    found = world.run(play_step, plan, lengths, seconds=lambda action: computing, **options)
    assert max(found) == pytest.approx(expected + computing, rel=1e-9), "nothing is gathered in the last forward pass"


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────────


def sharded(comm: Communicator) -> tuple[Any, torch.optim.Optimizer]:
    model: Any = Blocks()
    model = FullyShardedModule(comm, model, units=model.blocks)
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def train_and_save(comm: Communicator, folder: Path) -> None:
    model, optimizer = sharded(comm)
    model(rows(comm, 0)).square().mean().backward()
    optimizer.step()
    save_shards(comm, folder, model, optimizer)


def load_and_train(comm: Communicator, folder: Path) -> Any:
    model, optimizer = sharded(comm)
    load_shards(comm, folder, model, optimizer)
    model(rows(comm, 1)).square().mean().backward()
    optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize(("saved_by", "loaded_by"), [(4, 2), (2, 3)])
def test_another_number_of_ranks_goes_on_with_a_checkpoint(saved_by: int, loaded_by: int, tmp_path: Path) -> None:
    model = Blocks()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(2):
        optimizer.zero_grad()
        model(rows(None, step)).square().mean().backward()
        optimizer.step()
    simulated(saved_by).run(train_and_save, tmp_path)
    for found in simulated(loaded_by).run(load_and_train, tmp_path):
        torch.testing.assert_close(found, dict(model.state_dict()), rtol=0, atol=1e-9)


def test_a_torn_checkpoint_is_told(tmp_path: Path) -> None:
    with pytest.raises(RankError, match="has no complete checkpoint"):
        simulated(2).run(load_and_train, tmp_path)
    simulated(2).run(train_and_save, tmp_path)
    file = next(tmp_path.glob("*-rank-1-of-2.pt"))
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(RankError, match=r"is torn: \w+-rank-1-of-2.pt can't be read"):
        simulated(2).run(load_and_train, tmp_path)
    torch.save({"model": torch.ones(3)}, file)
    with pytest.raises(
        RankError, match=r"expected \w+-rank-1-of-2.pt in .* to hold a rank's shards, got something else"
    ):
        simulated(2).run(load_and_train, tmp_path)
    file.unlink()
    with pytest.raises(RankError, match=r"is torn: \w+-rank-1-of-2.pt is not there"):
        simulated(2).run(load_and_train, tmp_path)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["LBFGS", "Adafactor", "SparseAdam"])
def test_an_optimizer_that_does_not_work_element_by_element(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} can't be sharded"):
        check_elementwise(getattr(torch.optim, name), lr=0.01)


def refused(ranks: int, words: str, function: Callable[[Communicator, Any], object]) -> None:
    """The function is given the communicator and a sharded model."""

    def run(comm: Communicator) -> None:
        function(comm, sharded(comm)[0])

    with pytest.raises((RankError, MessageMismatch), match=words):
        simulated(ranks).run(run, timeout=60)


def skip_a_block_on_rank_1(comm: Communicator, model: Any) -> None:
    model.module.uses = (0, 2) if comm.rank == 1 else (0, 1, 2)
    model(rows(comm, 0)).sum().backward()


def skip_a_bias_on_rank_1(comm: Communicator, model: Any) -> None:
    model.module.blocks[1].register_forward_pre_hook(lambda block, args: (*args, comm.rank != 1))
    model(rows(comm, 0)).sum().backward()


def step_before_backward(comm: Communicator, model: Any) -> None:
    loss = model(rows(comm, 0)).sum()
    with torch.no_grad():
        model.units[0].shard.mul_(0.5)
    loss.backward()


def change_in_place(comm: Communicator, model: Any) -> None:
    with torch.no_grad():
        model.module.blocks[1].layer.weight.mul_(0.5)
    model(rows(comm, 0))


def train_the_parameters_inside(comm: Communicator, model: Any) -> None:
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.1)
    model(rows(comm, 0)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (skip_a_block_on_rank_1, "all_gather of unit blocks.1"),
        (skip_a_bias_on_rank_1, "on rank 1 the backward pass produced no gradient for blocks.1.layer.bias"),
        (step_before_backward, "blocks.0 have changed on rank 0 between a forward pass and its backward pass"),
        (change_in_place, "blocks.1.layer.weight was changed in place on rank 0"),
        (train_the_parameters_inside, "SGD was given parameters of the model inside"),
        (lambda comm, model: FullyShardedModule(comm, model.module), "expected a model that is not sharded"),
        (lambda comm, model: model.float(), "can't be moved or get another dtype"),
    ],
)
def test_a_mistake_is_told(function: Callable[[Communicator, Any], object], words: str) -> None:
    refused(2, words, function)


def test_a_limit_of_memory_says_what_is_missing() -> None:
    def step(comm: Communicator) -> None:
        model, optimizer = sharded(comm)
        with MemoryAccount(comm, model, optimizer, limit=1000):
            model(rows(comm, 0)).sum().backward()

    with pytest.raises(
        RankError, match=r"bytes alive, [\d,]+ more than the limit of 1,000 allows, in the phase forward"
    ):
        simulated(2).run(step)


def test_the_plan_of_a_whole_step_says_when_each_stage_sends() -> None:
    """Stage 1 scatters in the last backward pass, stage 2 in each; both gather after the update, stage 3 before."""
    words = {stage: " ".join(map(str, stage_plan(stage, 2, 2))) for stage in (1, 2, 3)}
    assert words[1] == "F0 F1 B1 B0 F0 F1 B1 R1 B0 R0 A1 A0 U0 G0 G1 W0 W1"
    assert words[2] == "F0 F1 B1 R1 B0 R0 A1 A0 F0 F1 B1 R1 B0 R0 A1 A0 U0 G0 G1 W0 W1"
    assert stage_plan(3, 2, 2)[:-1] == step_plan(2, reshard_after_forward=True) * 2
    for wrong in ((0, 2, 1), (4, 2, 1), (1, 0, 1), (1, 2, 0)):
        with pytest.raises(ValueError, match="stage_plan"):
            stage_plan(*wrong)


@pytest.mark.parametrize(("stage", "microbatches", "sent"), [(1, 1, 2), (1, 4, 2), (2, 4, 5), (3, 1, 3), (3, 4, 12)])
def test_a_played_stage_sends_its_bytes_and_notes_its_spans(stage: int, microbatches: int, sent: int) -> None:
    world = SimulatedWorld(4, Cluster.flat(4, Link(0.0, 1e9)))
    plan = stage_plan(stage, 2, microbatches)

    def step(comm: Communicator) -> list[Span]:
        spans: list[Span] = []
        options = {"reduce_dtype": torch.bfloat16, "seconds": lambda action: 1e-3}
        seconds = play_step(comm, plan, [4000, 4000], note=lambda *span: spans.append(Span(*span)), **options)
        assert max(span.end for span in spans) == pytest.approx(seconds)
        return spans

    spans = world.run(step)[0]
    assert world.trace.bytes_sent == [sent * 2 * 3 * 1000 * 2] * 4
    computed = [span for span in spans if span.kind in ("forward", "backward", "update")]
    assert len(computed) == 4 * microbatches + 1
    on_the_way = sum(span.seconds for span in spans if span not in computed)
    assert on_the_way == pytest.approx(sent * 2 * 3 * 1000 * 2 / 1e9)
