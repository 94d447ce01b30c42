"""The check of exercise 09: right answers in several styles pass, and each wrong one reads what is wrong with it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from distlib import Communicator
from distlib.checks.exercises import pipeline
from distlib.checks.remark import CheckFailed

SIZES = [(1, 1), (2, 3), (4, 8), (3, 2), (4, 4)]
PLANS = [("gpipe", 1, 2, 2), ("naive", 2, 3, 2), ("1f1b", 3, 6, 2), ("gpipe", 3, 4, 1)]
Rows = list[list[str]]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """On tensors this small, several threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# ── schedules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def gpipe(p: int, m: int) -> Rows:
    return [[f"{s}{kind}{i}" for kind in "FB" for i in range(m)] for s in range(p)]


def gpipe_backwards(p: int, m: int) -> Rows:
    return [[f"{s}F{i}" for i in range(m)] + [f"{s}B{i}" for i in reversed(range(m))] for s in range(p)]


def one_f_one_b(p: int, m: int) -> Rows:
    def row(s: int) -> Iterator[str]:
        done = 0
        for i in range(m):
            yield f"{s}F{i}"
            if i >= p - s - 1:
                yield f"{s}B{done}"
                done += 1
        yield from (f"{s}B{i}" for i in range(done, m))

    return [list(row(s)) for s in range(p)]


def three_loops(p: int, m: int) -> Rows:
    rows: Rows = []
    for s in range(p):
        warmup = min(m, p - s)
        row = [f"{s}F{i}" for i in range(warmup)]
        for i in range(m - warmup):
            row += [f"{s}B{i}", f"{s}F{warmup + i}"]
        rows.append(row + [f"{s}B{i}" for i in range(m - warmup, m)])
    return rows


def sequential(p: int, m: int) -> Rows:
    return [[f"{s}{kind}{i}" for i in range(m) for kind in "FB"] for s in range(p)]


def short_warmup(p: int, m: int) -> Rows:
    rows = one_f_one_b(p, m)
    return [rows[min(s + 1, p - 1)] and [f"{s}{a[1:]}" for a in rows[min(s + 1, p - 1)]] for s in range(p)]


def one_too_many(p: int, m: int) -> Rows:
    return [[f"{s}{a[1:]}" for a in one_f_one_b(p + 1, m)[s]] for s in range(p)]


def backward_first(p: int, m: int) -> Rows:
    return [[f"{s}{kind}{i}" for kind in "BF" for i in range(m)] for s in range(p)]


def one_microbatch(p: int, m: int) -> Rows:
    return gpipe(p, 1)


def from_one(p: int, m: int) -> Rows:
    return [[f"{s}{kind}{i}" for kind in "FB" for i in range(1, m + 1)] for s in range(p)]


def without_last_backward(p: int, m: int) -> Rows:
    return [row[:-1] for row in gpipe(p, m)]


def all_stages_everywhere(p: int, m: int) -> Rows:
    return [[f"{s}{kind}{i}" for s in range(p) for kind in "FB" for i in range(m)] for _ in range(p)]


def other_ranks(p: int, m: int) -> Rows:
    return gpipe(p, m)[::-1]


def too_few_rows(p: int, m: int) -> Rows:
    return gpipe(p, m)[:1]


def without_stage(p: int, m: int) -> Rows:
    return [[a[1:] for a in row] for row in gpipe(p, m)]


def microbatches_crossed(p: int, m: int) -> Rows:
    return [
        [f"{s}F{i}" for i in (range(m) if s % 2 else reversed(range(m)))] + [f"{s}B{i}" for i in range(m)]
        for s in range(p)
    ]


@pytest.mark.parametrize("answer", [gpipe, gpipe_backwards, lambda p, m: tuple(map(tuple, gpipe(p, m)))])
def test_right_gpipes(answer: Callable[[int, int], Rows]) -> None:
    assert len(pipeline.check_gpipe(answer, sizes=SIZES)) == len(SIZES)


@pytest.mark.parametrize(
    "answer",
    [
        one_f_one_b,
        three_loops,
        lambda p, m: [tuple(row) for row in one_f_one_b(p, m)],
    ],
)
def test_right_1f1bs(answer: Callable[[int, int], Any]) -> None:
    assert len(pipeline.check_one_forward_one_backward(answer, sizes=SIZES)) == len(SIZES)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (sequential, "does 0B0 before 0F1"),
        (one_f_one_b, "in GPipe a rank does all its forward passes first"),
        (backward_first, "0B0 waits for 0F0"),
        (one_microbatch, "there are 1 microbatch, expected 3"),
        (from_one, "stage 0 and microbatch 0"),
        (without_last_backward, "expected 0F0, 0B0"),
        (all_stages_everywhere, "0F0 stands twice"),
        (other_ranks, "is not on rank"),
        (too_few_rows, "it returned 1 list, expected 2"),
        (without_stage, "such as 2F0, got 'F0'"),
        (microbatches_crossed, "units of time|cannot be executed"),
        (lambda p, m: None, "the last line must return"),
        (lambda p, m: "0F0", "a list of actions for each rank"),
        (lambda p, m: [[0] * m] * p, "an action is a text"),
    ],
)  # fmt: skip
def test_wrong_gpipes(answer: Callable[[int, int], Any], words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        pipeline.check_gpipe(answer, sizes=SIZES)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (gpipe, "this is GPipe"),
        (gpipe_backwards, "this is GPipe"),
        (sequential, "only one rank computes at a time"),
        (short_warmup, "units of time, if F takes 1"),
        (one_too_many, "keeps 3 microbatches at the same time. At most 2"),
        (one_microbatch, "there are 1 microbatch, expected 3"),
        (without_last_backward, "expected 0F0, 0B0"),
        (too_few_rows, "it returned 1 list, expected 2"),
    ],
)
def test_wrong_1f1bs(answer: Callable[[int, int], Any], words: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        pipeline.check_one_forward_one_backward(answer, sizes=SIZES)
    assert any(word in " ".join(str(failed.value).split()) for word in words.split("|")), str(failed.value)


# ── a stage ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Tensors = list[torch.Tensor]
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def right(
    comm: Communicator, stage: nn.Module, actions: list[str], inputs: Tensors, targets: Tensors, loss_function: Loss
) -> Any:
    is_first, is_last = comm.rank == 0, comm.rank == comm.world_size - 1
    kept, sending, total = {}, [], 0.0
    for action in actions:
        microbatch = int(action[2:])
        if "F" in action:
            x = inputs[microbatch]
            if not is_first:
                comm.recv(x, comm.rank - 1, tag=2 * microbatch)
                x.requires_grad_()
            y = stage(x)
            if is_last:
                y = loss_function(y, targets[microbatch])
                total += y.item()
            else:
                sending.append(comm.isend(y.detach(), comm.rank + 1, tag=2 * microbatch))
            kept[microbatch] = x, y
        else:
            x, y = kept.pop(microbatch)
            gradient = None
            if not is_last:
                gradient = torch.empty_like(y)
                comm.recv(gradient, comm.rank + 1, tag=2 * microbatch + 1)
            y.backward(gradient)
            if not is_first:
                sending.append(comm.isend(x.grad, comm.rank - 1, tag=2 * microbatch + 1))
    for work in sending:
        work.wait()
    return total if is_last else None


def changed(before: str, after: str) -> Callable[..., Any]:
    """The right answer with one thing changed. Like a notebook's cell it has a file of its own."""
    import inspect

    source = inspect.getsource(right)
    assert before in source
    names: dict[str, Any] = {"torch": torch, "nn": nn, "Any": Any, "Communicator": Any, "Tensors": Any, "Loss": Any}
    exec(compile(source.replace(before, after), __file__, "exec"), names)
    function: Callable[..., Any] = names["right"]
    return function


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y.item()", "float(y)"),
        ("x, y = kept.pop(microbatch)", "x, y = kept[microbatch]; del kept[microbatch]"),
        ("total += y.item()", "total = total + y.detach()"),
        ("gradient = torch.empty_like(y)", "gradient = torch.zeros(y.shape, dtype=y.dtype)"),
    ],
)
def test_right_stages(before: str, after: str) -> None:
    assert len(pipeline.check_run_stage(changed(before, after), plans=PLANS)) == len(PLANS)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("kept.pop(microbatch)", "kept[microbatch]", "keeps 3 microbatches at the same time; this schedule needs 1"),
        ("for action in actions:", "for action in sorted(actions, key=lambda a: a[1] == 'B'):", "the passes FFFBBB"),
        ("for action in actions:", "for action in actions[:2]:", "made the passes|has already returned|waits"),
        ("y.backward(gradient)", "y.backward(None if is_last else torch.ones_like(y))", "gradient of the weight is"),
        ("y.backward(gradient)", "stage.zero_grad(); y.backward(gradient)", "each backward pass adds to it"),
        ("y.item()", "y.item() / len(inputs)", "this is the mean of the microbatches' losses"),
        ("targets[microbatch])", "targets[microbatch]) / len(inputs)", "gives each one's share"),
        ("total if is_last else None", "None", "the loss that it returned is wrong"),
        ("comm.isend(x.grad,", "comm.isend(torch.zeros_like(x),", "the gradient of the weight is wrong"),
        ("comm.isend(y.detach(),", "comm.isend(y.detach().float(),", "float32"),
        ("tag=2 * microbatch + 1))", "tag=7))", "waits|tag"),
        ("x.requires_grad_()", "pass", "None"),
    ],
)  # fmt: skip
def test_wrong_stages(before: str, after: str, words: str) -> None:
    with pytest.raises(CheckFailed) as failed:
        pipeline.check_run_stage(changed(before, after), plans=PLANS)
    text = " ".join(str(failed.value).split())
    assert any(word in text for word in words.split("|")), str(failed.value)
