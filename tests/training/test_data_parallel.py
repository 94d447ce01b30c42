"""DataParallel by messages: equal to one process, message by message what it says, and errors that name the place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
import torch
from torch import nn

from distlib import Communicator, DeadlockError, MessageMismatch, RankError, SimulatedWorld, World
from distlib.partition import chunk_lengths
from distlib.trace import Message, Trace
from distlib.training.data_parallel import data_parallel_step

PIXELS, HIDDEN, CLASSES = 6, 5, 3
LOSS = nn.functional.cross_entropy


def make_model(seed: int = 0, hidden: int = HIDDEN, layers: int = 2, norm: bool = False) -> nn.Module:
    """A small classifier in float64."""
    torch.manual_seed(seed)
    middle = [nn.BatchNorm1d(hidden)] if norm else []
    end = [nn.Linear(CLASSES, CLASSES)] * (layers - 2)
    return nn.Sequential(nn.Linear(PIXELS, hidden), *middle, nn.Tanh(), nn.Linear(hidden, CLASSES), *end).double()


def make_batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(size)
    images = torch.randn(size, PIXELS, dtype=torch.float64, generator=generator)
    return images, torch.randint(CLASSES, (size,), generator=generator)


def seen_by(comm: Communicator, images: torch.Tensor) -> torch.Tensor:
    """The batch on rank 0; on the other ranks only its shape and dtype are right."""
    return images if comm.rank == 0 else torch.full_like(images, float("nan"))


def train(comm: Communicator, size: int, steps: int = 1, algorithm: str = "flat", norm: bool = False) -> tuple:
    """Some steps with SGD. Returns the losses, the last gradients, and the buffers, of this rank."""
    model = make_model(seed=comm.rank, norm=norm)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        images, labels = make_batch(size + step)
        losses.append(data_parallel_step(comm, model, seen_by(comm, images), labels, LOSS, algorithm))
        if comm.rank == 0:
            optimizer.step()
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return losses, gradients, [buffer.clone() for buffer in model.buffers()]


def train_alone(size: int, steps: int = 1) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        images, labels = make_batch(size + step)
        optimizer.zero_grad()
        loss = LOSS(model(images), labels)
        loss.backward()
        losses.append(loss.detach())
        optimizer.step()
    return losses, [parameter.grad for parameter in model.parameters() if parameter.grad is not None]


def assert_equal_to_one_process(results: list[tuple], size: int, steps: int = 1) -> None:
    losses, gradients = train_alone(size, steps)
    assert torch.allclose(torch.stack(results[0][0]), torch.stack(losses), rtol=1e-12, atol=1e-12)
    for found, wanted in zip(results[0][1], gradients, strict=True):
        assert torch.allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert all(result[0] == [None] * steps for result in results[1:])


# Values


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("size", [60, 13, 5])
@pytest.mark.parametrize("algorithm", ["flat", "tree", "chain"])
def test_the_master_has_the_gradients_of_a_single_process(world_size: int, size: int, algorithm: str) -> None:
    assert_equal_to_one_process(SimulatedWorld(world_size).run(train, size, algorithm=algorithm), size)


def test_twenty_steps_end_where_a_single_process_ends() -> None:
    assert_equal_to_one_process(SimulatedWorld(3).run(train, 17, 20), 17, 20)


def test_it_is_the_same_on_real_ranks() -> None:
    with World(3) as world:
        assert_equal_to_one_process(world.run(train, 13, 4, timeout=100), 13, 4)


def test_gradients_of_an_earlier_step_are_gone() -> None:
    """Two steps on the same batch without an update in between: the second leaves what the first left."""

    def two_steps(comm: Communicator) -> list[list[torch.Tensor]]:
        model, (images, labels) = make_model(), make_batch(7)
        found = []
        for _ in range(2):
            data_parallel_step(comm, model, images, labels, LOSS)
            found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
        return found

    first, second = SimulatedWorld(2).run(two_steps)[0]
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_frozen_and_unused_parameters() -> None:
    """A frozen parameter stays without a gradient and costs no message on the way back; an unused one gets zeros."""

    class Partly(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen = nn.Linear(PIXELS, HIDDEN).requires_grad_(False)
            self.used, self.unused = nn.Linear(HIDDEN, CLASSES), nn.Linear(2, 2)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.used(self.frozen(images))

    def step(comm: Communicator) -> dict[str, torch.Tensor | None]:
        model, (images, labels) = Partly().double(), make_batch(7)
        data_parallel_step(comm, model, images, labels, LOSS)
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    world = SimulatedWorld(2)
    gradients = world.run(step)[0]
    assert gradients["frozen.weight"] is None and gradients["frozen.bias"] is None
    assert gradients["unused.weight"] is not None and not gradients["unused.weight"].any()
    assert gradients["used.weight"] is not None and gradients["used.weight"].any()
    assert stages(world.trace)["reduce_gradients"] == (4, 8 * (CLASSES * HIDDEN + CLASSES + 4 + 2))


def test_batch_norm_normalizes_each_part_by_itself() -> None:
    """As in torch: the running mean of the master is that of its part, and everybody starts the next step with it."""
    results = SimulatedWorld(3).run(train, 12, norm=True)
    images, _ = make_batch(12)
    model = make_model(norm=True)
    assert isinstance(model, nn.Sequential)
    means = [0.1 * model[0](part).mean(dim=0) for part in images.tensor_split(3)]  # 0.1: the momentum of batch norm
    for (_, _, buffers), mean in zip(results, means, strict=True):
        assert torch.allclose(buffers[0], mean)
    assert not torch.allclose(results[0][2][0], 0.1 * model[0](images).mean(dim=0))


def test_buffers_of_the_master_go_out_with_the_model() -> None:
    def step(comm: Communicator) -> float:
        model, (images, labels) = make_model(norm=True).eval(), make_batch(6)
        model[1].running_var.fill_(4.0 if comm.rank == 0 else 1.0)  # type: ignore[index, union-attr, operator]
        data_parallel_step(comm, model, images, labels, LOSS)
        return float(model[1].running_var[0])  # type: ignore[index, union-attr]

    assert SimulatedWorld(3).run(step) == [4.0] * 3


# Messages


def stages(trace: Trace) -> dict[str, tuple[int, int]]:
    """Messages and bytes of each stage, by the name of the function that sent them."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for message in trace:
        stage = stage_of(message)
        found[stage] = (found[stage][0] + 1, found[stage][1] + message.nbytes)
    return dict(found)


def stage_of(message: Message) -> str:
    assert message.site.call is not None
    return message.site.call.partition("(")[0]


@pytest.mark.parametrize("world_size", [2, 3, 4, 5])
@pytest.mark.parametrize("size", [20, 13])
def test_each_stage_sends_what_it_says(world_size: int, size: int) -> None:
    world = SimulatedWorld(world_size)
    world.run(train, size)
    others = world_size - 1
    rows = size - chunk_lengths(size, world_size)[0]  # those that are not the master's
    model_bytes = 8 * (PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES)
    assert stages(world.trace) == {
        "split_batch": (others, 8 * rows * PIXELS),
        "replicate": (4 * others, others * model_bytes),
        "gather_outputs": (others, 8 * rows * CLASSES),
        "split_gradient": (others, 8 * rows * CLASSES),
        "reduce_gradients": (4 * others, others * model_bytes),
    }
    assert all(0 in (message.src, message.dst) for message in world.trace)
    assert world.trace.rounds == 4


def test_a_tree_spares_the_master() -> None:
    """8 ranks: the model leaves the master 3 times instead of 7 times. All together send the same."""
    sent = {}
    for algorithm in ("flat", "tree"):
        world = SimulatedWorld(8)
        world.run(train, 16, algorithm=algorithm)
        model = world.trace.filter(lambda message: stage_of(message) == "replicate")
        sent[algorithm] = model.messages_sent[0], sum(model.messages_sent)
    assert sent == {"flat": (4 * 7, 4 * 7), "tree": (4 * 3, 4 * 7)}


def test_a_chain_sends_the_model_once_over_each_link() -> None:
    """5 ranks: every rank passes the model on once, and the gradients once, so none is a bottleneck for either."""
    world = SimulatedWorld(5)
    world.run(train, 20, algorithm="chain")
    model_bytes = 8 * (PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES)
    out = world.trace.filter(lambda message: stage_of(message) == "replicate")
    back = world.trace.filter(lambda message: stage_of(message) == "reduce_gradients")
    assert out.bytes_sent == [model_bytes] * 4 + [0] and out.bytes_received == [0] + [model_bytes] * 4
    assert back.bytes_sent == [0] + [model_bytes] * 4 and back.bytes_received == [model_bytes] * 4 + [0]


def test_the_calls_of_a_step_as_a_message_count() -> None:
    """For each other rank 1 + (P + B) + 1 forward and 1 + P backward, with P parameters and B buffers."""
    for norm, buffers in ((False, 0), (True, 3)):
        world = SimulatedWorld(3)
        world.run(train, 9, norm=norm)
        parameters = len(list(make_model(norm=norm).parameters()))
        for other in (1, 2):
            messages = [m for m in world.trace if other in (m.src, m.dst)]
            forward = [m for m in messages if stage_of(m) in ("split_batch", "replicate", "gather_outputs")]
            assert len(forward) == 1 + parameters + buffers + 1
            assert len(messages) - len(forward) == 1 + parameters


def test_one_rank_sends_nothing() -> None:
    world = SimulatedWorld(1)
    world.run(train, 5)
    assert len(world.trace) == 0


# Bad input


def failing_run(world_size: int, change: Callable[..., tuple[nn.Module, torch.Tensor]]) -> RankError:
    """Run a step in which `change(comm, images)` makes the model and the batch. Returns the error."""

    def step(comm: Communicator) -> None:
        images, labels = make_batch(12)
        model, images = change(comm, images)
        data_parallel_step(comm, model, images, labels, LOSS)

    with pytest.raises(RankError) as caught:
        SimulatedWorld(world_size).run(step)
    return caught.value


@pytest.mark.parametrize("size", [0, 3])
def test_fewer_images_than_ranks(size: int) -> None:
    error = failing_run(4, lambda comm, images: (make_model(), images[:size]))
    assert f"expected a batch of at least 4 images for 4 ranks, got {size}" in str(error)


def test_a_batch_without_rows() -> None:
    error = failing_run(2, lambda comm, images: (make_model(), torch.tensor(1.0)))
    assert "split_batch expected a batch of the shape [B, …], got a tensor with a single number" in str(error)


def test_a_model_with_nothing_to_train() -> None:
    error = failing_run(2, lambda comm, images: (make_model().requires_grad_(False), images))
    assert "expected a model with parameters to train, got one without, or with frozen ones only" in str(error)


def test_models_of_different_shapes() -> None:
    error = failing_run(3, lambda comm, images: (make_model(hidden=HIDDEN + (comm.rank == 2)), images))
    assert isinstance(error, MessageMismatch)
    assert 'rank 0 is in replicate(tensor="0.weight", shape=(5, 6))' in str(error)
    assert 'rank 2 is in replicate(tensor="0.weight", shape=(6, 6))' in str(error)


def test_models_with_equally_many_numbers_in_another_shape() -> None:
    def change(comm: Communicator, images: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
        return (nn.Linear(PIXELS, 4) if comm.rank == 0 else nn.Linear(PIXELS - 2, 6)).double(), images

    assert "shape=(4, 6)" in str(failing_run(2, change))


def test_a_parameter_that_is_missing_on_one_rank() -> None:
    error = failing_run(3, lambda comm, images: (make_model(layers=2 if comm.rank == 1 else 3), images))
    assert isinstance(error, DeadlockError)
    assert "to rank 1 (" in str(error) and 'replicate(tensor="3.weight", shape=(3, 3))' in str(error)


def test_batches_of_different_shapes() -> None:
    error = failing_run(3, lambda comm, images: (make_model(), images[: 12 - comm.rank]))
    assert isinstance(error, MessageMismatch) and "split_batch(shape=(11, 6))" in str(error)


def test_a_gradient_that_is_not_a_number_on_one_rank() -> None:
    def change(comm: Communicator, images: torch.Tensor) -> tuple[nn.Module, torch.Tensor]:
        model = make_model()
        if comm.rank == 2:
            model[2].bias.register_hook(lambda gradient: gradient * float("nan"))  # type: ignore[index, union-attr]
        return model, images

    error = failing_run(4, change)
    assert error.ranks == [2] and "on rank 2 the gradient of 2.bias has 3 of 3 numbers that are NaN" in str(error)


def test_a_loss_that_is_not_a_number() -> None:
    error = failing_run(2, lambda comm, images: (make_model(), images * float("nan")))
    assert error.ranks == [0] and "the loss is nan" in str(error)


def test_an_output_without_a_row_for_each_image() -> None:
    error = failing_run(2, lambda comm, images: (nn.Sequential(make_model(), nn.Flatten(0)), images))
    assert "a row for each of the 6 images of rank 0, got the shape (18,)" in str(error)


def test_a_rank_that_leaves_the_loop_early() -> None:
    def step(comm: Communicator) -> None:
        model, (images, labels) = make_model(), make_batch(12)
        for _ in range(1 if comm.rank == 2 else 2):
            data_parallel_step(comm, model, images, labels, LOSS)

    with World(3) as world, pytest.raises(DeadlockError, match="rank 2"):
        world.run(step, timeout=100)
