"""What goes wrong with sharded training is said at the line that did it, and nothing hangs."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator, MessageMismatch, RankError, SimulatedWorld, World
from distlib.training.zero import (
    FullyShardedModule,
    MemoryAccount,
    ShardedGradients,
    ShardedOptimizer,
    load_shards,
    save_shards,
)

Mistake = Callable[[Communicator, int], object]  # it is given the stage; the line that does it ends in "# here"
INPUTS = torch.linspace(-1, 1, 12, dtype=torch.float64).view(2, 6)


class Blocks(nn.Module):
    """Layers one after the other; `uses` says which of them compute."""

    def __init__(self, widths: tuple[int, ...] = (6, 6, 6)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Linear(6, width) for width in widths).double()
        self.uses = tuple(range(len(widths)))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for number in self.uses:
            inputs = self.blocks[number](inputs)
        return inputs


def sharded(
    comm: Communicator, stage: int, module: nn.Module | None = None, kind: Any = torch.optim.AdamW
) -> tuple[Any, Any]:
    """The model, and its optimizer."""
    model: Any = module or Blocks()
    if stage == 3:
        model = FullyShardedModule(comm, model, units=model.blocks)
        return model, kind(model.parameters(), lr=0.01)
    maker = ShardedOptimizer if stage == 1 else ShardedGradients
    return model, maker(comm, model, kind, units=model.blocks, lr=0.01)


def inside(model: Any) -> Blocks:
    """The model without its wrapper."""
    found: Blocks = getattr(model, "module", model)
    return found


def told(mistake: Mistake, stage: int, words: str, ranks: int = 2) -> None:
    """The error has these words, and the line that it names is the one that ends in "# here"."""
    with pytest.raises((RankError, MessageMismatch), match=words) as caught:
        SimulatedWorld(ranks, contexts="threads").run(mistake, stage, timeout=60)
    lines, first = inspect.getsourcelines(mistake)
    assert caught.value.site is not None
    assert [first + number for number, line in enumerate(lines) if line.endswith("# here\n")] == [
        caught.value.site.line
    ]


# ── optimizers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", [torch.optim.Adafactor, torch.optim.LBFGS])
def test_an_optimizer_that_has_no_state_for_each_element(kind: type[torch.optim.Optimizer]) -> None:
    """Stages 1 and 2 make it themselves, and say so there; in stage 3 the first step is the first chance."""

    def make(comm: Communicator, stage: int) -> None:
        maker = ShardedOptimizer if stage == 1 else ShardedGradients
        maker(comm, Blocks(), kind, lr=0.01)  # here

    def train(comm: Communicator, stage: int) -> None:
        model, optimizer = sharded(comm, stage, kind=kind)
        model(INPUTS).square().mean().backward()
        optimizer.step(lambda: torch.zeros(()))  # here

    words = f"{kind.__name__} can't be sharded.* Take SGD, Adam, AdamW"
    told(make, 1, words)
    told(make, 2, words)
    told(train, 3, words)


# ── gradients ────────────────────────────────────────────────────────────────────────────────────────────────────────

NO_GRADIENT = "on rank 1 the backward pass produced no gradient for {}, which the other ranks wait for"


def leave_a_bias_out(comm: Communicator, stage: int) -> None:
    model, optimizer = sharded(comm, stage)
    if comm.rank == 1:
        block: Any = inside(model).blocks[1]
        block.forward = lambda inputs: inputs @ block.weight.T
    model(INPUTS).square().mean().backward()
    optimizer.step()  # here


def leave_a_bias_out_of_the_backward_pass(comm: Communicator, stage: int) -> None:
    model, _ = sharded(comm, stage)
    if comm.rank == 1:
        block: Any = inside(model).blocks[1]
        block.forward = lambda inputs: inputs @ block.weight.T
    model(INPUTS).square().mean().backward()  # here


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_parameter_without_gradient_on_one_rank(stage: int) -> None:
    mistake = leave_a_bias_out if stage == 1 else leave_a_bias_out_of_the_backward_pass
    told(mistake, stage, NO_GRADIENT.format("blocks.1.bias"))


@pytest.mark.parametrize("stage", [2, 3])
def test_the_same_between_processes(stage: int) -> None:
    """Whether rank 1 sees it first, or rank 0 that rank 1 is in the next collective: the run ends, and says where."""
    either = r"no gradient for blocks.1.bias|is in reduce_scatter of unit blocks.1"
    with World(2) as world, pytest.raises((RankError, MessageMismatch), match=either):
        world.run(leave_a_bias_out_of_the_backward_pass, stage, timeout=120)


def leave_a_block_out(comm: Communicator, stage: int) -> None:
    model, optimizer = sharded(comm, stage)
    inside(model).uses = (0, 2)
    model(INPUTS).square().mean().backward()
    optimizer.step()  # here


@pytest.mark.parametrize("stage", [1, 2])
def test_a_block_that_no_rank_uses(stage: int) -> None:
    """Every rank has the same to say, and rank 0 says it first."""
    told(leave_a_block_out, stage, "the backward pass produced no gradient for blocks.1.weight, blocks.1.bias")


def train_without_a_block(comm: Communicator | None) -> dict[str, torch.Tensor]:
    model: Any = Blocks()
    if comm is not None:
        model, optimizer = sharded(comm, 3, model)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for uses in ((0, 1, 2), (0, 2), (2, 0), (0, 1, 1, 2)):
        inside(model).uses = uses
        optimizer.zero_grad()
        model(INPUTS).square().mean().backward()
        optimizer.step()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def test_stage_3_leaves_a_block_as_it_is_that_no_rank_uses() -> None:
    """As one process does. Other steps have other orders, and a block that computes twice."""
    expected = train_without_a_block(None)
    for found in SimulatedWorld(2, contexts="threads").run(train_without_a_block, timeout=60):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def change_the_order_on_rank_1(comm: Communicator, stage: int) -> None:
    model, _ = sharded(comm, stage)
    inside(model).uses = (0, 1, 2) if comm.rank == 0 else (0, 2, 1)
    model(INPUTS).square().mean().backward()  # here


def test_blocks_in_another_order_on_one_rank() -> None:
    words = r"rank 0 is in reduce_scatter of unit blocks.2 .* but rank 1 is in reduce_scatter of unit blocks.1"
    told(change_the_order_on_rank_1, 3, words)


def add_gradients_after_clipping(comm: Communicator, stage: int) -> None:
    model, optimizer = sharded(comm, stage)
    model(INPUTS).square().mean().backward()
    optimizer.clip_grad_norm(1.0)
    model(INPUTS).square().mean().backward()
    optimizer.step()  # here


def test_a_backward_pass_after_clipping() -> None:
    """In stage 1 its gradients would stay where they are, and not count."""
    told(add_gradients_after_clipping, 1, "on rank 0 a backward pass came after the gradients were averaged")


# ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────────


def change_a_copy(comm: Communicator, stage: int) -> None:
    model, optimizer = sharded(comm, stage)
    model(INPUTS).square().mean().backward()
    with torch.no_grad():
        inside(model).blocks[1].weight.mul_(0.5)
    optimizer.step()  # here


@pytest.mark.parametrize("stage", [1, 2])
def test_parameters_that_are_changed_between_steps(stage: int) -> None:
    told(change_a_copy, stage, r"blocks.1.weight was changed in place on rank 0.* or call take_parameters\(\)")


def test_changed_parameters_can_be_taken() -> None:
    def change(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
        model, optimizer = sharded(comm, 1)
        with torch.no_grad():
            model.blocks[1].weight.fill_(0.5)
        optimizer.take_parameters()
        for unit in optimizer.units:
            unit.shard.grad = torch.zeros_like(unit.shard)
            unit.gather()
        return model.blocks[1].weight, torch.full((6, 6), 0.5, dtype=torch.float64)

    for found, expected in SimulatedWorld(2).run(change, timeout=60):
        assert torch.equal(found, expected)


# ── checkpoints ──────────────────────────────────────────────────────────────────────────────────────────────────────


def save(comm: Communicator, folder: Path) -> None:
    model, optimizer = sharded(comm, 3)
    model(INPUTS).square().mean().backward()
    optimizer.step()
    save_shards(comm, folder, model, optimizer)


class WithBuffer(Blocks):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Blocks((6, 6, 5)), r"of another model.*\(6, 6\).* as unit 'blocks.2'.*\(5, 6\)"),
        (Blocks((6, 6)), r"of another model.* as unit 'blocks.2', where this model has None"),
        (WithBuffer(), r"of another model: its frozen .* shapes \[\], those of this model \[\(2,\)\]"),
    ],
    ids=["width", "depth", "buffer"],
)
def test_the_checkpoint_of_another_model(module: nn.Module, words: str, tmp_path: Path) -> None:
    def load(comm: Communicator, stage: int) -> None:
        model, optimizer = sharded(comm, stage, module)
        load_shards(comm, tmp_path, model, optimizer)  # here

    SimulatedWorld(2, contexts="threads").run(save, tmp_path)
    told(load, 3, words)


def test_the_checkpoint_of_another_optimizer(tmp_path: Path) -> None:
    def load(comm: Communicator, stage: int) -> None:
        model, _ = sharded(comm, stage)
        groups = [{"params": [unit.shard]} for unit in model.units]
        load_shards(comm, tmp_path, model, torch.optim.AdamW(groups))  # here

    SimulatedWorld(2, contexts="threads").run(save, tmp_path)
    told(load, 3, "of another optimizer: the number of its param_groups is 1, of this one's 3")


@pytest.mark.parametrize("index", ["", '{"name": "ab', json.dumps({"name": "ab"})], ids=["empty", "torn", "of another"])
def test_a_torn_index(index: str, tmp_path: Path) -> None:
    def load(comm: Communicator, stage: int) -> None:
        model, optimizer = sharded(comm, stage)
        load_shards(comm, tmp_path, model, optimizer)  # here

    SimulatedWorld(2, contexts="threads").run(save, tmp_path)
    (tmp_path / "checkpoint.json").write_text(index)
    told(load, 3, r"the checkpoint in .* is torn: checkpoint.json can't be read")


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def fit_into_nothing(comm: Communicator, stage: int) -> None:
    model, optimizer = sharded(comm, stage)
    with MemoryAccount(comm, model, optimizer, limit=1):
        model(INPUTS).square().mean().backward()


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_limit_that_nothing_can_meet(stage: int) -> None:
    with pytest.raises(RankError, match=r"rank 0 has ([\d,]+) bytes alive, [\d,]+ more than the limit of 1 ") as caught:
        SimulatedWorld(2, contexts="threads").run(fit_into_nothing, stage, timeout=60)
    alive, missing = (int(found.replace(",", "")) for found in _numbers_before(str(caught.value), "bytes", "more"))
    assert alive - missing == 1


def _numbers_before(text: str, *words: str) -> list[str]:
    parts = text.split()
    return [parts[parts.index(word) - 1] for word in words]
