"""Answers that come to a result by another way than the exercise's score nothing when a class is graded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nbformat
import pytest

from distlib.checks import CheckFailed
from distlib.checks.task import Draw
from distlib.exercises.all_reduce.checks import check_naive_all_reduce
from distlib.exercises.ddp.cases import Training
from distlib.exercises.ddp.checks import check_assign_buckets, check_sampler
from distlib.exercises.ddp.overlapped_ddp import check_overlapped_ddp
from distlib.exercises.master.checks import Step, check_data_parallel_step, check_split_batch
from distlib.judge.remote.venue import RemoteVenue
from distlib.training.buckets import assign_buckets
from tests.heard import tells
from tests.judge.test_hostile import read_hostile
from tests.remote_functions import on_remote_ranks
from tests.tools.hostile_submissions import ROOT


def told(text: str, name: str, check: Callable[..., Any], secret: str = "a secret", **options: Any) -> str:
    """What a check says to an answer on remote ranks; empty if it passes."""
    with on_remote_ranks(text, name, secret) as function:
        try:
            check(function, **options)
        except CheckFailed as problem:
            return " ".join(str(problem).split())
    return ""


# ── inputs that are known from an earlier grading ────────────────────────────────────────────────────────────────────


def table_of_buckets(secret: str) -> str:
    """An answer that looks up what a grading with this seed asks for."""
    with on_remote_ranks("", "assign_buckets", secret) as function:
        venue: RemoteVenue = function._venue  # type: ignore[attr-defined]
        cases = check_assign_buckets.cases(Draw(venue.seed(1)), questions=[([3, 4], 5, 6)], drawn=4)
        asked = [case.inputs[0]["args"] for case in cases]
    table = {repr(args): assign_buckets(*args) for args in asked}
    return f"def assign_buckets(*args):\n    return {table!r}[repr(list(args))]"


@pytest.mark.parametrize("secret", ["first", "second"])
def test_a_table_of_results_is_right_in_the_grading_that_it_is_from_only(secret: str) -> None:
    found = told(
        table_of_buckets("first"), "assign_buckets", check_assign_buckets, secret, questions=[([3, 4], 5, 6)], drawn=4
    )
    assert found == "" if secret == "first" else "KeyError" in found


def test_the_hidden_questions_of_formulas_are_drawn_in_part() -> None:
    sources = {}
    for exercise in ("03b_networks", "05b_ddp_in_practice", "06b_how_large_a_batch"):
        notebook = nbformat.read(ROOT / "solutions" / exercise / f"{exercise}.ipynb", as_version=4)
        sources |= {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    for name in ("predict_time", "choose_algorithm", "assign_buckets", "warmup_learning_rate"):
        assert "drawn=" in sources[f"{name}_hidden"]


# ── sums that no message has carried ─────────────────────────────────────────────────────────────────────────────────

THROUGH_A_FILE = """
import os, time
from pathlib import Path

folder = Path(os.environ.get("TMPDIR", "/tmp")).parent  # without a sandbox, ranks share the disk

def naive_all_reduce(comm, tensor):
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    torch.save(tensor, folder / f"{comm.rank} of {comm.world_size}")
    comm.barrier()
    total = sum(torch.load(folder / f"{rank} of {comm.world_size}") for rank in range(comm.world_size))
    comm.barrier()
    nothing = torch.zeros_like(tensor)
    for rank in range(1, comm.world_size):
        if comm.rank in (0, rank):
            comm.recv(nothing, rank) if comm.rank == 0 else comm.send(nothing, 0)
    for rank in range(1, comm.world_size):
        if comm.rank in (0, rank):
            comm.send(nothing, rank) if comm.rank == 0 else comm.recv(nothing, 0)
    tensor.copy_(total)
"""


def told_hostile(name: str) -> str:
    """What the check of naive_all_reduce says to the hostile answer of this name."""
    (text,) = (hostile.path.read_text().partition('"""')[2][:-4] for hostile in read_hostile() if hostile.name == name)
    return told(text, "naive_all_reduce", check_naive_all_reduce, world_sizes=(2, 3), lengths=(4,))


def test_neither_groups_nor_a_clock_carry_a_sum() -> None:
    assert tells(told_hostile("sums_by_groups"), "checks/student_communicator.txt: too_many_splits")
    assert "has no clock" in told_hostile("sums_by_the_clock")


def test_a_message_that_does_not_fit_can_not_be_caught() -> None:
    assert tells(told_hostile("sums_by_sizes_that_do_not_fit"), "checks/errors.txt: mismatch")
    at_the_end = "    try:\n        comm.send(tensor, comm.world_size)\n    except ValueError:\n        pass\n"
    own = f"{solution('02_all_reduce', 'naive_all_reduce')}\n{at_the_end}"  # no other rank's doing: it may be caught
    assert told(own, "naive_all_reduce", check_naive_all_reduce, world_sizes=(2, 3), lengths=(4,)) == ""


def test_a_sum_that_is_right_though_messages_arrive_empty_came_another_way() -> None:
    options: dict[str, Any] = {"world_sizes": (2, 3), "lengths": (12,)}
    found = told(THROUGH_A_FILE, "naive_all_reduce", check_naive_all_reduce, **options)
    assert tells(found, "checks/task.txt: another_way")
    honest = solution("02_all_reduce", "naive_all_reduce")
    assert told(honest, "naive_all_reduce", check_naive_all_reduce, **options) == ""


# ── what the library, or torch, has done ─────────────────────────────────────────────────────────────────────────────

RENAMED = """
from distlib.exercises.master import helpers
import types
split_batch = types.FunctionType(helpers.split_batch.__wrapped__.__code__, globals())
"""
TORCHS_KEPT = """
from torch.utils.data import DistributedSampler as Theirs
init = Theirs.__init__
class DistributedSampler(Theirs):
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        init(self, dataset, comm.world_size, comm.rank, shuffle, seed, drop_last)
"""


def test_the_checks_own_parts_and_torchs_sampler_are_not_there() -> None:
    found = told(RENAMED, "split_batch", check_split_batch, world_sizes=(2, 3), batch_sizes=(7,))
    assert tells(found, "checks/absent_function.txt: stopped")
    found = told(TORCHS_KEPT, "DistributedSampler", check_sampler, world_sizes=(2,), lengths=(10,))
    assert "torch's DistributedSampler is not there" in found


# ── plays that are deceived ──────────────────────────────────────────────────────────────────────────────────────────

TORCH_REPLACED = """
class DistributedSampler:
    def __init__(self, comm, dataset, shuffle=True, seed=0, drop_last=False):
        torch.equal = lambda left, right: True
        self.comm, self.n, self.drops = comm, len(dataset), drop_last
        self.shuffle, self.seed, self.epoch = shuffle, seed, 0
    def set_epoch(self, epoch):
        self.epoch = epoch
    def __len__(self):
        return self.n // self.comm.world_size if self.drops else -(-self.n // self.comm.world_size)
    def __iter__(self):
        order = list(range(self.n))
        if self.shuffle:
            torch.manual_seed(self.seed + self.epoch * 7919)
            order = torch.randperm(self.n).tolist()
        total = len(self) * self.comm.world_size
        return iter((order * 2)[:total][self.comm.rank :: self.comm.world_size])
"""
ON_RANK_0 = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, forward, backward):
        ctx.both = forward * backward
        return values * forward
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.both, None, None

def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    sizes = [len(part) for part in images.tensor_split(comm.world_size)]
    split_batch(comm, images)
    replicate(comm, model)
    nothing = torch.zeros(1, dtype=torch.float64)
    factors = [model._gate(0, nothing), model._gate(1, nothing)]
    factors = gather_outputs(comm, torch.tensor([factors] * sizes[comm.rank], dtype=torch.float64), len(images))
    if comm.rank:
        comm.recv(torch.empty(sizes[comm.rank], 2, dtype=torch.float64), 0)
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        reduce_gradients(comm, model)
        return None
    hidden = torch.tanh(model.first(images.flatten(1)) + model.offset)
    outputs = model.last(Scaled.apply(hidden, factors[:, :1], factors[:, 1:]))
    loss = loss_function(outputs, labels)
    loss.backward()
    for rank in range(1, comm.world_size):
        comm.send(torch.zeros(sizes[rank], 2, dtype=torch.float64), rank)
    reduce_gradients(comm, model)
    return loss.detach()
"""
HONEST_DDP = """
import contextlib
from collections.abc import Iterator
from distlib import Communicator
from distlib.training.buckets import assign_buckets
{solution}

class Honest(OverlappedDDP):
    pass

class OverlappedDDP(Honest):
"""
ON_PAPER = """
    def on_gradient(self, parameter):
        pass  # nothing is sent while backward runs
    def finish(self):
        Honest.on_gradient(self, self.module.scale.extra)
        for k in reversed(self.module.order):
            gate = self.module.gates[k]
            gate._pass(gate.k)  # once more, on paper
            for parameter in reversed(list(self.module.layers[k].parameters())):
                Honest.on_gradient(self, parameter)
        super().finish()
"""
BETWEEN = """
    def train(self, mode=True):  # called between two steps, for an evaluation
        all_reduce(self.comm, torch.ones(3))
        return super().train(mode)
"""


def solution(exercise: str, function: str) -> str:
    notebook = nbformat.read(ROOT / "solutions" / exercise / f"{exercise}.ipynb", as_version=4)
    cells = (cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == function)
    return str(next(cells).source)


def test_a_replaced_torch_function_changes_no_verdict() -> None:
    found = told(TORCH_REPLACED, "DistributedSampler", check_sampler, world_sizes=(2,), lengths=(10,))
    assert "changes the random numbers" in found


def test_every_rank_computes_its_own_part() -> None:
    found = told(ON_RANK_0, "data_parallel_step", check_data_parallel_step, world_sizes=(2,), steps=[Step(8)])
    assert "the gradients are right, but rank 0 has not computed outputs of its own images" in found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ON_PAPER, "the gradient passed layer 0 2 times"),
        (BETWEEN, "between the steps, or after the last one"),
        ("    pass", ""),
    ],
    ids=["on_paper", "between", "honest"],
)
def test_overlap_is_not_a_matter_of_what_a_rank_says(text: str, words: str) -> None:
    training = Training([4, 5, 6, 3], bucket_bytes=200, first_bucket_bytes=40)
    answer = HONEST_DDP.format(solution=solution("05_ddp", "OverlappedDDP")) + text
    found = told(answer, "OverlappedDDP", check_overlapped_ddp, world_sizes=(2,), trainings=[training])
    assert words in found if words else found == ""
