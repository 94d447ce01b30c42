"""Checks by scenario: functions with models, classes, functions that only compute; in a notebook and by the judge."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest
import torch

from distlib import SimulatedWorld
from distlib.checks.plays.calls import call
from distlib.checks.plays.gated import Gate, open_gate
from distlib.checks.plays.plain import plain
from distlib.checks.plays.training import Model, first_gate
from distlib.checks.remark import Remark
from distlib.checks.supplied import helper_named, helper_origins, scope_of, supplied
from distlib.grading import (
    CheckFailed,
    Example,
    Gradients,
    Training,
    check_average_gradients,
    check_overlapped_ddp,
    check_returns,
    check_sampler,
    gradient_checks,
)
from distlib.grading.ddp_case import make_case
from distlib.grading.ddp_messages import hidden_share
from distlib.grading.return_checks import same
from distlib.grading.scenario_case import Part
from distlib.grading.scenario_side import simulate_play
from distlib.grading.specification import is_own
from distlib.trace import CallSite, Message
from tests.answer_files import read_answers
from tests.remote_functions import PLACES, in_a_notebook, on_remote_ranks

pytestmark = pytest.mark.timeout(120)

Place = Callable[[str, str], AbstractContextManager[Callable[..., Any]]]

AVERAGE = """
def average_gradients(comm, module):
    trained = [p for p in module.parameters() if p.requires_grad]
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained])
    all_reduce(comm, flat)
    flat /= comm.world_size
    for p, average in zip(trained, flat.split([p.numel() for p in trained])):
        p.grad = average.view_as(p).clone()
"""
MODELS = (Gradients([(2, 3), (3,)]), Gradients([(2, 3), (3,), (4,)], missing=[(1, 1)], frozen=[2]))
SAMPLER = """
class DistributedSampler:
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        self.length, self.world_size, self.rank = len(dataset), comm.world_size, comm.rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.length // self.world_size if self.drop_last else -(-self.length // self.world_size)

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        shuffled = torch.randperm(self.length, generator=generator).tolist()
        order = shuffled if self.shuffle else list(range(self.length))
        while order and len(order) < len(self) * self.world_size:
            order = order + order[: len(self) * self.world_size - len(order)]
        return iter(order[: len(self) * self.world_size][self.rank :: self.world_size])
"""


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest) -> Place:
    """In a notebook, then on remote ranks."""
    found: Place = request.param
    return found


def told(check: Callable[..., Any], function: Callable[..., Any], **options: Any) -> str:
    """What a student is told, on one line; empty if everything is right."""
    try:
        check(function, **options)
    except CheckFailed as error:
        return " ".join(str(error).split())
    return ""


# ── average_gradients ────────────────────────────────────────────────────────────────────────────────────────────────


def test_right_averages_and_their_report(place: Place) -> None:
    with place(AVERAGE, "average_gradients") as function:
        report = check_average_gradients(function, world_sizes=(1, 2, 3), models=MODELS)
    assert len(report) == 6
    assert report[1].trace.messages_sent == [2, 2]
    assert sum(report[2].trace.bytes_sent) == 4 * 9 * 4  # twice (N - 1) times nine float32
    assert str(report).splitlines()[2].endswith("on 2 ranks, 2 parameters: 4 messages, 72 bytes in all")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    all_reduce", "    raise NotImplementedError()\n    all_reduce", "it is not written yet"),
        ("flat /= comm.world_size", "pass", "this is the sum over the ranks"),
        ("flat /= comm.world_size", "flat /= comm.world_size**2", "divided by the number of ranks twice"),
        ("p.grad = average", "average", "this is still the rank's own gradient"),
        ("p.grad = average", "p.data = average", "parameter 0 itself has changed"),
        ("all_reduce(comm, flat)", "all_reduce(comm, flat, async_op=True)", "before the sum had come"),
        ("all_reduce(comm, flat)", "[all_reduce(comm, part) for part in flat.split(3)]", "rank 0 sent 6 messages"),
        ("all_reduce(comm, flat)", "[all_reduce(comm, flat), all_reduce(comm, flat.clone())]", "144 bytes were sent"),
        ("if p.requires_grad]", "if p.grad is not None]", "doesn't fit"),
        ("torch.zeros_like(p) if p.grad is None else p.grad", "p.grad", "a parameter may have no gradient"),
    ],
)
def test_wrong_averages(old: str, new: str, words: str) -> None:
    assert old in AVERAGE
    with in_a_notebook(AVERAGE.replace(old, new), "average_gradients") as function:
        seen = told(check_average_gradients, function, world_sizes=(1, 2), models=MODELS)
    assert seen.startswith("average_gradients on ")
    assert words.replace("doesn't fit", "a message does not fit") in seen


@pytest.mark.parametrize(
    ("real", "simulated", "words"),
    [
        (Remark("other."), Remark("wrong.", cause="haste."), "wrong. Usual cause: haste."),
        (Remark("wrong.", cause="haste."), Remark("other.", cause="luck."), "wrong. Usual cause: haste."),
        (Remark("wrong."), Remark("other."), "wrong."),
        (Remark("wrong."), None, "wrong."),
        (None, Remark("other.", cause="luck."), ""),
    ],
)
def test_real_ranks_have_the_last_word_but_for_a_cause_that_only_simulated_ones_show(
    monkeypatch: pytest.MonkeyPatch, real: Remark | None, simulated: Remark | None, words: str
) -> None:
    monkeypatch.setattr(gradient_checks, "_judge", lambda case, scene: simulated if scene.in_virtual_time else real)
    with in_a_notebook(AVERAGE, "average_gradients") as function:
        seen = told(check_average_gradients, function, world_sizes=(2,), models=MODELS[:1])
    assert seen == (f"average_gradients on 2 ranks, 2 parameters: {words}" if words else "")


def test_an_asynchronous_all_reduce_is_as_good(place: Place) -> None:
    text = AVERAGE.replace("all_reduce(comm, flat)", "all_reduce(comm, flat, async_op=True).wait()")
    with place(text, "average_gradients") as function:
        assert told(check_average_gradients, function, world_sizes=(1, 3), models=MODELS) == ""


def test_the_librarys_name_leads_to_the_helper_too(place: Place) -> None:
    text = AVERAGE.replace("all_reduce(comm", "import distlib; distlib.all_reduce(comm")
    with place(text, "average_gradients") as function:
        assert told(check_average_gradients, function, world_sizes=(1, 2), models=MODELS) == ""


def test_a_decorated_function_gets_the_helpers(place: Place) -> None:
    with place(AVERAGE.replace("def ", "@torch.no_grad()\ndef "), "average_gradients") as function:
        assert told(check_average_gradients, function, world_sizes=(2,), models=MODELS[:1]) == ""


def test_another_algorithm_of_the_library_does_not_count() -> None:
    text = AVERAGE.replace("all_reduce(comm, flat)", "import distlib.collectives as c; c.tree_all_reduce(comm, flat)")
    with in_a_notebook(text, "average_gradients") as function:
        seen = told(check_average_gradients, function, world_sizes=(2,), models=MODELS[:1])
    assert "2 of 2 messages were sent by distlib.collectives.tree.tree_all_reduce" in seen
    assert "send and receive with comm, or call all_reduce" in seen


def test_real_ranks_have_the_last_word() -> None:
    shared = """
def average_gradients(comm, module):
    import math
    seen = math.__dict__.setdefault("seen", {})
    for number, p in enumerate(module.parameters()):
        seen[comm.rank, number] = p.grad
        comm.barrier()
        p.grad = sum(seen[rank, number] for rank in range(comm.world_size)) / comm.world_size
        comm.barrier()
"""
    with in_a_notebook(shared, "average_gradients") as function:
        assert "KeyError" in told(check_average_gradients, function, world_sizes=(2,), models=MODELS[:1])


# ── DistributedSampler ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_right_sampler(place: Place) -> None:
    with place(SAMPLER, "DistributedSampler") as function:
        report = check_sampler(function, world_sizes=(1, 2, 3), lengths=(12, 10, 2, 0))
    assert len(report) == 48
    assert report[0].results[0]["lengths"] == [12, 12]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("self.shuffle else", "False else", "nothing is shuffled"),
        ("self.seed + self.epoch", "self.seed", "two epochs have the same order"),
        ("self.seed + self.epoch", "self.epoch", "another seed gives the same order"),
        ("self.seed + self.epoch", "self.seed + self.epoch + self.rank", "the parts of the ranks overlap"),
        ("torch.Generator()", "torch", "it changes the random numbers of the rest of the program"),
        ("][self.rank :: self.world_size]", "]", "rank 0 got 12 samples; expected 6"),
        ("[: len(self) * self.world_size][", "[", "rank 0 got 4 samples; expected 3. rank 0:"),
        ("return self.length // self.world_size if self.drop_last else ", "return ", "nothing is repeated"),
        ("-(-self.length // self.world_size)", "self.length", "goes through the whole data set"),
        (
            "order[: len(self) * self.world_size][self.rank :: self.world_size]",
            "order[self.rank * len(self) :][: len(self)]",
            "without shuffling, the samples do not come in their order",
        ),
    ],
)
def test_wrong_samplers(old: str, new: str, words: str) -> None:
    assert old in SAMPLER
    with in_a_notebook(SAMPLER.replace(old, new), "DistributedSampler") as function:
        assert words in told(check_sampler, function, world_sizes=(1, 2, 3), lengths=(12, 10))


def test_torchs_own_sampler_does_not_count(place: Place) -> None:
    text = """
class DistributedSampler(torch.utils.data.DistributedSampler):
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        super().__init__(dataset, comm.world_size, comm.rank, shuffle, seed, drop_last)
"""
    with place(text, "DistributedSampler") as function:
        assert "a library function does the work" in told(check_sampler, function, world_sizes=(1,), lengths=(8,))


# ── functions that only compute ──────────────────────────────────────────────────────────────────────────────────────


def halves(function: Callable[..., Any]) -> str:
    """What is told about a function that should return n halves."""
    examples = [Example((1,), [0.5]), Example((2,), [0.5, 0.5], causes=[([0.5], "one is missing.")])]
    return told(check_returns, function, arguments=("n",), examples=examples, cause=lambda example, found: "no idea.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return [0.5] * n", ""),
        ("return (0.5,) * n", ""),
        (
            "return [0.5]",
            "f(2): it returned a wrong value. expected [0.5, 0.5] found [0.5] Usual cause: one is missing.",
        ),
        ("return [1] * n", "f(1): it returned a wrong value. expected [0.5] found [1] Usual cause: no idea."),
        ("pass", "f(1): it returned None; expected [0.5]."),
        ("return map(float, [0.5] * n)", "found a value of type map"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise NotImplementedError()", "it is not written yet"),
        ("import os; os._exit(2)", "exited with code 2"),
    ],
)
def test_a_function_that_computes(body: str, words: str) -> None:
    with in_a_notebook(f"def f(n):\n    {body}", "f") as function:
        seen = halves(function)
    assert words in seen and bool(words) == bool(seen)


@pytest.mark.parametrize("body", ["return [0.5] * n", "return map(float, [0.5] * n)"])
def test_the_judge_says_the_same_of_it(body: str) -> None:
    text = f"def f(n):\n    {body}"
    with in_a_notebook(text, "f") as here, on_remote_ranks(text, "f") as there:
        assert halves(here) == halves(there)


def test_a_function_of_the_library_does_not_count() -> None:
    text = "from distlib.partition import chunk_lengths\ndef f(n): return chunk_lengths(n, 2)"
    with in_a_notebook(text, "f") as function:
        seen = told(check_returns, function, arguments=("n",), examples=[Example((4,), [2, 2])])
        assert "it calls distlib.partition.chunk_lengths, a function of the library" in seen
        same_one = function.__globals__["chunk_lengths"]  # type: ignore[attr-defined]
    seen = told(check_returns, same_one, arguments=("length", "parts"), examples=[Example((4, 2), [2, 2])])
    assert "it calls distlib.partition.chunk_lengths" in seen


def test_what_is_the_same() -> None:
    one = torch.tensor([1.0, 2.0])
    assert same(one + 1e-9, one) and same({"a": (1,)}, {"a": [1]}) and same(0.1 + 0.2, 0.3) and same(1, 1.0)
    for wrong in (one.double(), one[:1], [1.0, 2.0], None, torch.tensor([1.0, float("nan")])):
        assert not same(wrong, one)
    assert not same(True, 1) and not same([1], [1, 1]) and not same("1", 1.0) and not same({}, {"a": 1})


# ── the machinery ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gate_lets_time_pass_and_multiplies_the_gradient() -> None:
    part = Part(backward_through_gates, [None, None], seed=5, apart=0.0)
    world = SimulatedWorld(1)
    played, _, error = world.run(simulate, part)[0]
    assert error is None
    assert [each.gates for each in played] == [((0, 0.5), (1, 0.75))] * 2
    for rank, each in enumerate(played):
        assert each.result == pytest.approx(3 * part.factor(rank, 0) * part.factor(rank, 1))
        assert 0.5 <= part.factor(rank, 0) <= 1.5
    assert part.factor(0, 0) != part.factor(1, 0) != part.factor(1, 1)


def simulate(comm: Any, part: Part) -> Any:
    """Play a part on simulated ranks, here."""
    from distlib.worlds import pickling

    return simulate_play(comm, pickling.pack_call(print, (), {}), part, (), None, 10.0)


def backward_through_gates(comm: Any, function: Any, inputs: Any, gate: Any) -> Any:
    """A scenario: 3 x, with a gate on both sides."""
    x = torch.ones((), requires_grad=True)
    Gate(gate, 0, 0.5)(3 * Gate(gate, 1, 0.25)(x)).backward()
    assert x.grad is not None
    return x.grad.item()


def test_what_travels() -> None:
    import numpy

    tensor = torch.ones(2, requires_grad=True)
    given = {"a": [1, (2.5, None)], 3: numpy.float64(1.5), "t": tensor * 2, "odd": range(3), "n": numpy.int64(4)}
    made = plain(given)
    assert isinstance(made, dict)
    assert made.pop("t").equal(torch.tensor([2.0, 2.0]))
    assert made == {"a": [1, (2.5, None)], 3: 1.5, "odd": {"type": "range"}, "n": 4}
    assert not tensor.grad_fn and type(made["n"]) is int


def test_helpers_replace_the_names_of_a_class_and_put_them_back() -> None:
    text = "class Mine:\n    @torch.no_grad()\n    def go(self, comm, tensor): return all_reduce(comm, tensor)"
    with in_a_notebook(text, "Mine") as mine:
        before = scope_of(mine)["all_reduce"]
        with supplied(mine, ("all_reduce", "gated.Gate")):
            assert scope_of(mine)["all_reduce"] is helper_named("all_reduce")
            assert scope_of(mine)["Gate"] is Gate
        assert scope_of(mine)["all_reduce"] is before
        assert "Gate" not in scope_of(mine)


def test_messages_of_helpers_are_the_students() -> None:
    def message(via: str | None) -> Message:
        site = CallSite("cell 1, line 1", "f", "cell.py", 1, via)
        return Message(0, 1, 0, 4, "float32", (1,), 0.0, 0.0, 0.0, 1, site, site)

    origins = helper_origins("all_reduce")
    assert origins == ("distlib.checks.supplied.all_reduce", "distlib.collectives.all_reduce")
    assert all(is_own(message(origin), ("all_reduce",)) for origin in (None, *origins))
    assert not is_own(message("distlib.collectives.broadcast"), ("all_reduce",))
    assert not is_own(message("distlib.collectives.all_reduce"))


def test_scenarios_only_import_what_the_sandbox_has() -> None:
    from distlib.judge.sandbox.contents import library_files

    files = library_files()
    assert "distlib/checks/plays/calls.py" in files
    assert inspect.getsourcefile(call) == str(files["distlib/checks/plays/calls.py"])


# ── OverlappedDDP ────────────────────────────────────────────────────────────────────────────────────────────────────

DDP = {answer.name: answer.text for answer in read_answers("05_ddp") if answer.function == "OverlappedDDP"}
SHORT = [Training([3, 4, 4, 2], bucket_bytes=80, first_bucket_bytes=10)]


def answer(name: str) -> str:
    """An answer of exercise 05, with what stands in its set-up cell."""
    return f"import contextlib\nfrom distlib.training.buckets import assign_buckets\n{DDP[name]}"


def test_a_right_ddp_hides_its_communication(place: Place) -> None:
    with place(answer("right_sets_of_missing"), "OverlappedDDP") as function:
        report = check_overlapped_ddp(function, world_sizes=(1, 2), trainings=SHORT)
    assert len(report) == 2
    case = make_case("OverlappedDDP", SHORT[0], 2, 1).expected
    assert case.buckets == [[6], [5, 4], [3, 2], [1, 0]]
    assert report[1].trace.messages_sent[1] == 2 * 4 * 2  # steps, buckets, messages of an all-reduce on 2 ranks
    assert hidden_share(report[0]) == 1.0
    assert 0.5 < hidden_share(report[1]) < 1.0
    (last_layer,), (first_layer,) = report[1].passed(0, first_gate(1) + 2), report[1].passed(0, first_gate(1))
    assert first_layer - last_layer == pytest.approx(0.02)  # nobody waits inside backward


def test_the_right_values_are_those_of_one_model_on_all_samples() -> None:
    """Without gates, the average of the ranks' gradients is that of the mean over all their samples."""
    training = Training([3, 4, 2], steps=1)
    case = make_case("f", training, 3, 9).expected
    inputs = case.inputs
    model = Model(inputs[0]["state"], [], open_gate, 0.0)
    batches = [rank["steps"][0][0] for rank in inputs]
    outputs = model(torch.cat([batch["x"] for batch in batches]))
    torch.nn.functional.mse_loss(outputs, torch.cat([batch["y"] for batch in batches])).backward()
    flat = replace(case, part=_NoGates(**vars(case.part)))
    for parameter, right in zip(model.parameters(), flat.right.gradients[0], strict=True):
        assert parameter.grad is not None and right is not None
        assert torch.allclose(parameter.grad, right, rtol=1e-12, atol=1e-15)


class _NoGates(Part):
    """A part whose gates multiply by 1."""

    def factor(self, rank: int, k: int) -> float:
        """Nothing is changed."""
        return 1.0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong_averages_once_at_the_end", "when the backward pass was over"),
        ("wrong_blocks_in_the_hook", "waits inside the backward pass"),
        ("wrong_one_flat_copy", "that is one all-reduce of everything"),
    ],
)
def test_moments_and_messages_are_judged_alike_everywhere(place: Place, name: str, words: str) -> None:
    with place(answer(name), "OverlappedDDP") as function:
        assert words in told(check_overlapped_ddp, function, world_sizes=(2,), trainings=SHORT)
