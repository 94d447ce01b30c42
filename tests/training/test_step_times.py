"""When a rank computes and communicates in a step: in virtual time to the digit, and drawn."""

import pytest
import torch
from matplotlib.patches import Rectangle
from torch import nn

from distlib import Cluster, Communicator, Link, RankError, SimulatedWorld, World
from distlib.draw import step_timeline
from distlib.training.ddp import VERSIONS, DistributedDataParallel, Span, StepClock, StepTimes


def three_layers() -> nn.Module:
    return nn.Sequential(*(nn.Linear(10, 10, bias=False) for _ in range(3)))  # 400 bytes each


def one_step(comm: Communicator, version: str, virtual: bool = True) -> StepTimes:
    model = three_layers()
    clock = StepClock(comm, model, {"0": 1.0, "1": 2.0, "2": 3.0} if virtual else None)
    ddp = DistributedDataParallel(
        comm, model, version=version, bucket_bytes=400, first_bucket_bytes=400, algorithm=clock.noted("ring")
    )
    comm.barrier()
    with clock.step():
        ddp(torch.ones(1, 10)).sum().backward()
    return clock.steps[-1]


def simulated(version: str) -> StepTimes:
    cluster = Cluster.flat(2, Link(latency=0.5, bandwidth=100.0))  # a bucket: 2 rounds of 200 bytes, 5 s
    return SimulatedWorld(2, cluster, contexts="threads").run(one_step, version)[0]


def test_computing_takes_the_time_that_was_said() -> None:
    step = simulated("flat")
    assert [(span.name, span.seconds) for span in step.of("forward")] == [("0", 1), ("1", 2), ("2", pytest.approx(3))]
    assert [(span.name, span.seconds) for span in step.of("backward")] == [
        (n, pytest.approx(s)) for n, s in (("2", 6), ("1", 4), ("0", 2))
    ]
    assert step.computing == pytest.approx(18)
    assert [span.seconds for span in step.of("communication")] == pytest.approx([13])
    assert (step.seconds, step.hidden, step.hideable) == pytest.approx((31, 0, 0))


def test_an_overlapped_step_hides_all_but_the_last_bucket() -> None:
    after, beside = simulated("bucketed"), simulated("overlapped")
    assert (after.seconds, after.communicating, after.hidden) == pytest.approx((18 + 15, 15, 0))
    starts = [span.start - beside.start for span in beside.of("communication")]
    assert starts == pytest.approx([12, 17, 22])  # the second bucket is full at 16 and waits for the first one
    assert beside.seconds == pytest.approx(27)
    assert beside.hidden == pytest.approx(6)  # from 12 to 18
    assert beside.hideable == pytest.approx(6)


def test_real_steps_are_noted_too() -> None:
    with World(2) as world:
        for version in VERSIONS:
            step = world.run(one_step, version, False)[0]
            assert [span.name for span in step.of("forward")] == ["0", "1", "2"]
            assert [span.name for span in step.of("backward")] == ["2", "1", "0"]
            assert len(step.of("communication")) == (1 if version == "flat" else 3)
            assert step.start <= min(span.start for span in step.spans)
            assert max(span.end for span in step.spans) <= step.end
            assert (step.hidden > 0) <= (version == "overlapped")


def test_a_layer_that_does_not_exist_is_named() -> None:
    with pytest.raises(RankError, match=r"expected layers among 0, 1, 2, got fc"):
        SimulatedWorld(1).run(lambda comm: StepClock(comm, three_layers(), {"fc": 1.0}))


def test_gradients_are_the_same_with_a_clock() -> None:
    def step(comm: Communicator) -> tuple[torch.Tensor, torch.Tensor]:
        torch.manual_seed(0)
        plain, noted = three_layers(), three_layers()
        noted.load_state_dict(plain.state_dict())
        StepClock(comm, noted)
        for model in (plain, noted):
            model(torch.ones(1, 10)).sum().backward()
        return plain[0].weight.grad, noted[0].weight.grad

    plain, noted = SimulatedWorld(1).run(step)[0]
    assert torch.equal(plain, noted)


def test_the_picture_says_what_the_steps_took() -> None:
    picture = step_timeline({version: simulated(version) for version in ("bucketed", "overlapped")})
    assert "bucketed: the step takes 33 s, computing 18 s, 3 all-reduces 15 s, 0 % hidden." in picture.alt
    assert "overlapped: the step takes 27 s, computing 18 s, 3 all-reduces 15 s, 40 % hidden." in picture.alt
    assert len(picture._repr_png_()) > 1_000


def test_waiting_is_drawn_and_no_number_stands_alone() -> None:
    spans = [
        Span("forward", "2", 0.0, 1.0),
        Span("backward", "2", 1.5, 4.0),
        Span("communication", "bucket 0", 1.5, 2.5),
        Span("communication", "bucket 1", 2.5, 2.51),
        Span("communication", "bucket 2", 2.51, 9.0),
    ]
    picture = step_timeline({"0 to 10": StepTimes(0.0, 10.0, spans)})
    drawn = [bar for bar in picture.figure.axes[1].patches if isinstance(bar, Rectangle)]
    waits = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in drawn if bar.get_hatch()]
    assert waits == [(1.0, 1.5), (4.0, 10.0)], "neither forward nor backward"
    written = [text.get_text() for text in picture.figure.axes[1].texts]
    assert written == ["bucket 0", "bucket 2", "10 s"], "bucket 1 has no room for its name"


def test_names_of_buckets_that_are_under_way_at_once_do_not_overlap() -> None:
    """A name stands where its bar is seen: bucket 1 lies in front of the end of bucket 0."""
    spans = [
        Span("communication", "bucket 0", 0.0, 6.0),
        Span("communication", "bucket 1", 3.0, 7.0),
        Span("communication", "bucket 2", 7.0, 10.0),
    ]
    picture = step_timeline({"0 to 10": StepTimes(0.0, 10.0, spans)})
    written = {text.get_text(): text.get_position()[0] for text in picture.figure.axes[1].texts[:-1]}
    assert written == {"bucket 0": 1.5, "bucket 1": 5.0, "bucket 2": 8.5}


def test_a_step_without_communication_can_be_drawn() -> None:
    picture = step_timeline({"alone": StepTimes(0.0, 1.0, [Span("forward", "0", 0.0, 1.0)])})
    assert "0 all-reduces" in picture.alt and "hidden" not in picture.alt


def test_what_can_not_be_drawn_is_named() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        step_timeline({})
    with pytest.raises(TypeError, match="expected StepTimes for 'x'"):
        step_timeline({"x": 3})  # type: ignore[dict-item]
