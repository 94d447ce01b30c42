"""Pipeline: any schedule equal to one process, its messages, its memory, its virtual time, and what it refuses."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.training.pipeline import Pipeline, cut_by_cost, measure_costs, stages_of
from distlib.training.schedules import (
    Costs,
    Schedule,
    ScheduleError,
    Timing,
    gpipe,
    interleaved_1f1b,
    most_live,
    naive,
    one_forward_one_backward,
    parse_schedule,
    time_schedule,
    zero_bubble,
    zero_bubble_v,
)

Maker = Callable[[int, int], Schedule]
MAKERS: list[Maker] = [naive, gpipe, one_forward_one_backward, interleaved_1f1b, zero_bubble, zero_bubble_v]
SAMPLES, FEATURES, HIDDEN, CLASSES = 12, 6, 5, 3


def mlp(linear_layers: int = 8, seed: int = 0, between: Callable[[], nn.Module] = nn.Tanh) -> nn.Sequential:
    torch.manual_seed(seed)
    widths = [FEATURES, *[HIDDEN] * (linear_layers - 1), CLASSES]
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), between()]
    return nn.Sequential(*layers[:-1]).double()


def batch(samples: int = SAMPLES, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, FEATURES, dtype=torch.float64, generator=generator)
    return inputs, torch.randint(CLASSES, (samples,), generator=generator)


State = dict[str, torch.Tensor]


def train_alone(model: nn.Module, samples: int = SAMPLES, steps: int = 10) -> tuple[list[float], State]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for step in range(steps):
        inputs, labels = batch(samples, step)
        optimizer.zero_grad()
        loss = cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses, model.state_dict()


def train_in_pipeline(
    comm: Communicator,
    build: Callable[[], nn.Sequential],
    schedule: Schedule,
    samples: int = SAMPLES,
    steps: int = 10,
    **options: Any,
) -> tuple[list[float | None], State]:
    stages = stages_of(build(), 1 + max(action.stage for row in schedule for action in row))
    pipeline = Pipeline(comm, stages, schedule, cross_entropy, **options)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        losses.append(pipeline.step(*batch(samples, step)))
        optimizer.step()
    return losses, {name: value for stage in pipeline.stages.values() for name, value in stage.state_dict().items()}


def check_equal(by_rank: list[Any], losses: list[float], state: State) -> None:
    (with_losses,) = (found for found, _ in by_rank if found != [None] * len(losses))  # the rank of the last stage
    assert with_losses == pytest.approx(losses, abs=1e-9)
    assert {name for _, part in by_rank for name in part} == set(state)
    for _, part in by_rank:
        for name, value in part.items():
            torch.testing.assert_close(value, state[name], rtol=0, atol=1e-9)


# ── the same as one process ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("make", MAKERS)
def test_ten_steps_equal_one_process(make: Maker, recompute: bool) -> None:
    by_rank = SimulatedWorld(4).run(train_in_pipeline, mlp, make(4, 6), recompute=recompute)
    check_equal(by_rank, *train_alone(mlp()))


@pytest.mark.parametrize("make", MAKERS)
def test_microbatches_that_do_not_divide_the_batch(make: Maker) -> None:
    by_rank = SimulatedWorld(3).run(train_in_pipeline, mlp, make(3, 5), samples=13)
    check_equal(by_rank, *train_alone(mlp(), samples=13))


@pytest.mark.parametrize("make", [one_forward_one_backward, zero_bubble])
def test_real_ranks(make: Maker) -> None:
    with World(2) as world:
        check_equal(world.run(train_in_pipeline, mlp, make(2, 5)), *train_alone(mlp()))


def test_one_rank() -> None:
    check_equal(SimulatedWorld(1).run(train_in_pipeline, mlp, zero_bubble(1, 3)), *train_alone(mlp()))
    check_equal(SimulatedWorld(1).run(train_in_pipeline, mlp, interleaved_1f1b(1, 3, 4)), *train_alone(mlp()))


def test_a_schedule_of_ones_own() -> None:
    """A rank with the first and the last stage; whole backward passes on one stage, halves on the other."""
    rows = ["0F0 0F1 2F0 2I0 2F1 2I1 2W1 2W0 0B0 0B1", "1F0 1F1 1I0 1W0 1I1 1W1"]
    schedule = parse_schedule(rows)

    def run(comm: Communicator) -> tuple[list[float | None], State]:
        return train_in_pipeline(comm, mlp, schedule)

    found = SimulatedWorld(2).run(run)
    check_equal(found[::-1], *train_alone(mlp()))


class Output(nn.Module):
    """Scores by similarity with the rows of an embedding's weight."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.weight = embedding.weight

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs @ self.weight.T


def tied_model() -> nn.Sequential:
    torch.manual_seed(0)
    embedding = nn.Embedding(7, HIDDEN)
    return nn.Sequential(embedding, nn.Linear(HIDDEN, HIDDEN), nn.Tanh(), Output(embedding)).double()


def step_on_words(comm: Communicator, make: Maker, steps: int) -> tuple[list[float | None], list[State]]:
    stages = stages_of(tied_model(), 3, [2, 2, 0, 2])
    pipeline = Pipeline(comm, stages, make(3, 4), cross_entropy)
    optimizer = torch.optim.SGD(pipeline.parameters(), lr=0.3)
    words = torch.arange(20).reshape(10, 2)[:, 0] % 7
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        losses.append(pipeline.step(words, words.roll(1)))
        optimizer.step()
    return losses, [stage.state_dict() for stage in pipeline.stages.values()]


@pytest.mark.parametrize("make", [gpipe, zero_bubble])
def test_weights_tied_between_the_first_and_the_last_stage(make: Maker) -> None:
    model, words = tied_model(), torch.arange(20).reshape(10, 2)[:, 0] % 7
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(10):
        optimizer.zero_grad()
        loss = cross_entropy(model(words), words.roll(1))
        loss.backward()
        optimizer.step()
    simulated = SimulatedWorld(3)
    by_rank = simulated.run(step_on_words, make, 10)
    assert by_rank[2][0][-1] == pytest.approx(float(loss.detach()), abs=1e-9)
    for _, states in by_rank:
        for name, value in states[0].items():
            torch.testing.assert_close(value, model.state_dict()[name], rtol=0, atol=1e-9)
    sums = simulated.trace.filter(lambda message: "all_reduce" in (message.site.call or ""))
    assert sums.messages_sent == [20, 0, 20] and sums.bytes_sent == [10 * 7 * HIDDEN * 8, 0, 10 * 7 * HIDDEN * 8]


def test_dropout_is_the_same_when_it_is_recomputed() -> None:
    def losses(comm: Communicator, recompute: bool) -> tuple[list[float | None], State]:
        torch.manual_seed(comm.rank)
        build = lambda: mlp(between=lambda: nn.Dropout(0.5))  # noqa: E731
        return train_in_pipeline(comm, build, gpipe(1, 3), recompute=recompute)

    plain, again = (SimulatedWorld(1).run(losses, recompute)[0] for recompute in (False, True))
    assert plain[0] == again[0]
    assert all(torch.equal(plain[1][name], again[1][name]) for name in plain[1])


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", MAKERS)
def test_messages_and_bytes(make: Maker) -> None:
    simulated, p, m, steps = SimulatedWorld(4), 4, 6, 3
    simulated.run(train_in_pipeline, mlp, make(p, m), steps=steps)
    boundaries = {interleaved_1f1b: 7, zero_bubble_v: 6}.get(make, 3)
    agreeing = simulated.trace.filter(lambda message: message.tag == 0)
    passing = simulated.trace.filter(lambda message: message.tag != 0)
    assert (len(agreeing), {message.nbytes for message in agreeing}) == (boundaries, {168})
    assert len(passing) == steps * boundaries * 2 * m
    assert sum(passing.bytes_sent) == steps * boundaries * 2 * SAMPLES * HIDDEN * 8
    assert len({(message.src, message.dst, message.tag) for message in passing}) == len(passing) // steps


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def kept_in_a_step(comm: Communicator, schedule: Schedule, recompute: bool = False) -> list[dict[Any, int]]:
    stages = stages_of(mlp(16), 1 + max(action.stage for row in schedule for action in row))
    pipeline = Pipeline(comm, stages, schedule, cross_entropy, recompute=recompute)
    pipeline.step(*batch(32))
    assert pipeline.record.kept[-1] == {}
    assert pipeline.record.peak_bytes >= max(sum(kept.values()) for kept in pipeline.record.kept)
    return [*pipeline.record.kept, {"most live": pipeline.record.most_live, "peak": pipeline.record.peak_bytes}]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("m", [2, 8])
def test_live_microbatches_are_as_the_schedule_says(make: Maker, m: int, recompute: bool) -> None:
    schedule = make(4, m)
    by_rank = SimulatedWorld(4).run(kept_in_a_step, schedule, recompute)
    assert [kept[-1]["most live"] for kept in by_rank] == most_live(schedule, up_to_weight=True)


def test_activations_between_forward_and_first_half_are_those_of_1f1b() -> None:
    """What Tanh keeps is gone after the first half; what Linear keeps stays up to the second."""
    p, m = 4, 8
    for rank, kept in enumerate(SimulatedWorld(p).run(kept_in_a_step, zero_bubble(p, m))):
        whole = max(kept[0].values())
        counts = [sum(nbytes == whole for nbytes in after.values()) for after in kept[:-1]]
        assert max(counts) == min(m, p - rank) == most_live(zero_bubble(p, m))[rank]


def test_bytes_that_are_kept() -> None:
    """Per microbatch: the input of the stage, the output of every Tanh, and the output of the stage."""
    p, m = 4, 8
    one = 32 // m * HIDDEN * 8  # bytes of one activation
    every = SimulatedWorld(p).run(kept_in_a_step, gpipe(p, m))[1]
    again = SimulatedWorld(p).run(kept_in_a_step, gpipe(p, m), recompute=True)[1]
    layers = list(stages_of(mlp(16), p)[1])
    tensors = 1 + sum(isinstance(layer, nn.Tanh) for layer in layers) + isinstance(layers[-1], nn.Linear)
    assert every[m - 1] == {(1, microbatch): one * tensors for microbatch in range(m)}
    assert again[m - 1] == {(1, microbatch): one for microbatch in range(m)}
    assert again[-1]["peak"] < every[-1]["peak"] / 3


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spans_of_a_step(comm: Communicator, schedule: Schedule, costs: Costs) -> list[Any]:
    stages = stages_of(mlp(16), 1 + max(action.stage for row in schedule for action in row))
    pipeline = Pipeline(comm, stages, schedule, cross_entropy, costs=costs)
    pipeline.step(*batch(32))
    return pipeline.record.spans


@pytest.mark.parametrize("make", MAKERS)
def test_virtual_time_is_that_of_the_schedule(make: Maker) -> None:
    schedule, costs = make(4, 8), Costs(forward=1, backward=2)
    instant = Cluster.flat(4, Link(latency=0, bandwidth=float("inf")))
    by_rank = SimulatedWorld(4, instant).run(spans_of_a_step, schedule, costs)
    for spans, wanted in zip(by_rank, time_schedule(schedule, costs).spans, strict=True):
        assert [span.action for span in spans] == [span.action for span in wanted]
        assert [span.start for span in spans] == pytest.approx([span.start for span in wanted], abs=1e-9)
        assert [span.end for span in spans] == pytest.approx([span.end for span in wanted], abs=1e-9)


@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
def test_bubble_of_a_run(make: Maker) -> None:
    instant = Cluster.flat(4, Link(latency=0, bandwidth=float("inf")))
    by_rank = SimulatedWorld(4, instant).run(spans_of_a_step, make(4, 8), Costs(forward=1, backward=1))
    assert Timing(by_rank).bubble == pytest.approx(3 / 11, abs=1e-9)


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cut_by_cost() -> None:
    assert cut_by_cost([1, 1, 1, 1, 4, 4], 3) == [range(0, 4), range(4, 5), range(5, 6)]
    assert cut_by_cost([1, 1, 1, 1], 2) == [range(0, 2), range(2, 4)]
    assert cut_by_cost([9, 0, 0], 3) == [range(0, 1), range(1, 2), range(2, 3)]
    assert cut_by_cost([5], 1) == [range(0, 1)]
    assert cut_by_cost([True, False, True, True], 2) == [range(0, 3), range(3, 4)]  # which layers count


def test_cut_by_cost_is_the_best_cut() -> None:
    def best(costs: list[int], stages: int) -> int:
        if stages == 1:
            return sum(costs)
        ways = range(1, len(costs) - stages + 2)
        return min(max(sum(costs[:first]), best(costs[first:], stages - 1)) for first in ways)

    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        layers = int(torch.randint(1, 9, (), generator=generator))
        costs = torch.randint(0, 9, (layers,), generator=generator).tolist()
        for stages in range(1, layers + 1):
            cut = cut_by_cost(costs, stages)
            assert [layer for run in cut for layer in run] == list(range(layers)) and all(cut)
            assert max(sum(costs[layer] for layer in run) for run in cut) == best(costs, stages)


def test_costs_are_measured() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    assert measure_costs(model, torch.zeros(10, 6)) == [2 * 10 * 6 * 5, 0, 2 * 10 * 5 * 3]


def test_stages_share_layers_and_names() -> None:
    model = mlp(3)
    stages = stages_of(model, 2, [1] * 5)
    assert [name for stage in stages for name, _ in stage.named_parameters()] == [
        n for n, _ in model.named_parameters()
    ]
    assert [layer for stage in stages for layer in stage] == list(model)


def test_a_layer_that_stands_twice_is_in_both_places() -> None:
    tanh, block = nn.Tanh(), nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    stages = stages_of(nn.Sequential(block, tanh, nn.Linear(3, 3), tanh), 2, [1] * 4)
    assert [list(dict(stage.named_modules(remove_duplicate=False))) for stage in stages] == [
        ["", "0", "0.0", "0.1", "1"],
        ["", "2", "3"],
    ]
    assert stages[0][1] is stages[1][1] is tanh


# ── bad input ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_more_stages_than_layers() -> None:
    with pytest.raises(ValueError, match="at most one per layer, got 4 stages for 3 layers"):
        stages_of(mlp(2), 4)
    with pytest.raises(ValueError, match="expected a cost for each of 3 layers, got 2 costs"):
        stages_of(mlp(2), 2, [1, 1])
    with pytest.raises(ValueError, match=r"a number of at least 0 as costs\[1\], got costs\[1\]=-1"):
        cut_by_cost([1, -1], 1)


def test_a_module_that_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match="expected an nn.Sequential, .* got Output: only its forward knows"):
        stages_of(Output(nn.Embedding(3, 3)), 2)


def run_with(schedule: Schedule, stages: list[nn.Module], *tensors: torch.Tensor | None, ranks: int = 2) -> None:
    def step(comm: Communicator) -> None:
        Pipeline(comm, stages, schedule, cross_entropy).step(*(tensors or batch()))

    SimulatedWorld(ranks).run(step)


@pytest.fixture
def two() -> Iterator[list[nn.Module]]:
    yield list(stages_of(mlp(2), 2))


def test_stages_that_do_not_fit(two: list[nn.Module]) -> None:
    two[1] = nn.Linear(4, 3).double()
    with pytest.raises(
        RankError, match=r"stage 1 on rank 1 cannot take what stage 0 on rank 0 returns, float64 \[3, 5\]"
    ):
        run_with(gpipe(2, 4), two)
    two[0] = nn.Linear(FEATURES, HIDDEN)
    with pytest.raises(RankError, match=r"stage 0 on rank 0 cannot take the inputs, float64 \[3, 6\]"):
        run_with(gpipe(2, 4), two)


def test_stages_that_return_something_else(two: list[nn.Module]) -> None:
    two[0] = nn.LSTM(FEATURES, HIDDEN).double()
    with pytest.raises(RankError, match="expected stage 0 on rank 0 to return one floating-point tensor .* got tuple"):
        run_with(gpipe(2, 4), two)


def test_a_schedule_that_cannot_be_executed(two: list[nn.Module]) -> None:
    schedule = parse_schedule(["0F0 0B0 0F1 0B1", "1F1 1B1 1F0 1B0"])
    simulated = SimulatedWorld(2)
    with pytest.raises(RankError, match="0B0 waits for 1B0, which rank 1 does only after 1F1"):
        simulated.run(lambda comm: Pipeline(comm, two, schedule, cross_entropy).step(*batch()))
    assert len(simulated.trace) == 0
    with pytest.raises(ScheduleError):
        time_schedule(schedule)


def test_sizes_that_do_not_fit(two: list[nn.Module]) -> None:
    with pytest.raises(RankError, match="expected a schedule for 3 ranks, got one for 2"):
        run_with(gpipe(2, 4), two, ranks=3)
    with pytest.raises(RankError, match="expected 3 stages, as the schedule has, got 2"):
        run_with(gpipe(3, 4), two, ranks=3)
    with pytest.raises(RankError, match="got 12 samples for 13 microbatches"):
        run_with(gpipe(2, 13), two)
    inputs, labels = batch()
    with pytest.raises(RankError, match="expected 12 targets on rank 1, which has the last stage, got 11"):
        run_with(gpipe(2, 4), two, inputs, labels[:11])
    with pytest.raises(RankError, match="expected inputs on rank 0, which has the first stage, got None"):
        run_with(gpipe(2, 4), two, None, labels)


def test_a_batch_of_another_shape(two: list[nn.Module]) -> None:
    def steps(comm: Communicator) -> None:
        pipeline = Pipeline(comm, two, gpipe(2, 4), cross_entropy)
        pipeline.step(*batch())
        pipeline.step(*batch(11))

    with pytest.raises(RankError, match=r"inputs of shape \(12, 6\), as in the first step, got \(11, 6\)"):
        SimulatedWorld(2).run(steps)
