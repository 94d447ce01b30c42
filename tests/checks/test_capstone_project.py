"""What the checks of exercises 19 and 19b are made of: cases, predictions, runs; and ranks that die in a case."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from distlib import Cluster, Communicator, Link, PeerLost
from distlib.checks.case import Case
from distlib.checks.remark import CheckFailed
from distlib.checks.task import Draw
from distlib.checks.training_scores import TrainingScore
from distlib.checks.venues import simulated_only
from distlib.exercises.capstone_project.board_scores import train_scores
from distlib.exercises.capstone_project.checks import check_survive, check_train, steps_alone
from distlib.exercises.capstone_project.gpt_job import GptJob
from distlib.exercises.capstone_project.job_cases import Challenge, steps_case, training_case
from distlib.exercises.capstone_project.job_plays import (
    NUMBERS,
    SAMPLES,
    Job,
    evaluated,
    gradient_sum,
    images_of,
    loss_sum,
)
from distlib.exercises.capstone_project.planned_steps import PlannedStep, bytes_between, simulated_seconds
from distlib.exercises.capstone_project.rehearsal import KEPT, rehearse
from distlib.exercises.capstone_project.training_run import TrainingRun
from distlib.games import best_plays

QUICK = Challenge("two alike", Cluster.flat(2, Link(1e-3, 1e7)), budget=100.0, target=2.2)


def a_few_steps(comm: Communicator, job: Job) -> torch.Tensor:
    """Twelve steps, with gradients that go through rank 0."""
    weights, optimizer = job.start(), job.optimizer(job.numbers)
    for step in range(12):
        gradient, theirs = job.gradient(weights, job.samples[40 * step : 40 * step + 40]), torch.empty(NUMBERS).double()
        comm.exchange(gradient, 1 - comm.rank, theirs, 1 - comm.rank)
        optimizer.step(weights, (gradient + theirs) / 80, 0.05)
    return weights


def test_the_gradient_is_that_of_the_loss() -> None:
    given = training_case(Draw(3), QUICK).inputs[0]
    images, labels, weights = images_of(given["images"]), given["labels"], given["weights"].requires_grad_()
    parts = weights.split([64 * 12, 12, 120, 10])
    hidden = torch.tanh(images[:9] @ parts[0].view(64, 12) + parts[1])
    loss = torch.nn.functional.cross_entropy(hidden @ parts[2].view(12, 10) + parts[3], labels[:9], reduction="sum")
    loss.backward()
    assert torch.allclose(gradient_sum(weights, images[:9], labels[:9]), weights.grad)
    assert torch.allclose(loss_sum(weights, images[:9], labels[:9]), loss)


def test_all_networks_start_alike_but_for_their_numbering() -> None:
    cases = [training_case(Draw(seed), QUICK).inputs[1] for seed in (1, 2)]
    losses = [evaluated(each["weights"], images_of(each["images"]), each["labels"]) for each in cases]
    assert not torch.equal(cases[0]["weights"], cases[1]["weights"])
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_each_rank_has_samples_of_its_own() -> None:
    inputs = training_case(Draw(1), replace(QUICK, cluster=Cluster.flat(3))).inputs
    lengths = [len(each["labels"]) - 512 for each in inputs]
    assert [each["first"] for each in inputs] == [0, 342, 683]
    assert lengths == [342, 341, 341]
    assert sum(lengths) == SAMPLES


def test_a_run_has_its_figures() -> None:
    with simulated_only():
        run = rehearse(a_few_steps, QUICK)
        report = check_train(a_few_steps, settings=[QUICK])
    assert TrainingRun(report[0]).seconds == run.seconds
    assert run.seconds == pytest.approx(12 * (0.08 + 0.001 + 7280 / 1e7) + 0.001, abs=1e-3)
    assert run.memory == 4 * 8 * NUMBERS + 8 * NUMBERS  # weights, two states, two gradients
    assert run.charged == 960
    assert [len(spans) for spans in run.computing()] == [12, 12]
    curve = run.curve()
    assert len(curve) == 13
    assert curve[0][1] > curve[-1][1] == run.loss
    assert "two alike" in str(run) and "no limit" in str(run)


def test_the_score_of_a_run() -> None:
    with simulated_only():
        (seen,) = check_train(a_few_steps, settings=[QUICK])
    (score,) = train_scores([seen])
    run = TrainingRun(seen)
    assert (score.setting, score.seconds, score.par, score.goal) == (QUICK.name, round(run.seconds, 3), 66.667, 2.2)
    assert len(score.curve) == 13 and score.curve[-1] == (score.seconds, round(run.loss, 4))
    assert TrainingScore.from_data(json.loads(json.dumps(score.as_data()))) == score


def test_a_long_curve_is_thinned_and_has_no_loss_that_is_no_number() -> None:
    def with_looks(comm: Communicator, job: Job) -> torch.Tensor:
        for number in range(200):
            job.loss(job.start() + number / 1e3)
        job.loss(torch.full((NUMBERS,), math.nan).double())
        return a_few_steps(comm, job)

    with simulated_only():
        (score,) = train_scores(check_train(with_looks, settings=[QUICK]))
    assert 40 < len(score.curve) <= 80 and all(math.isfinite(loss) for _, loss in score.curve)
    assert score.curve[-1][0] == score.seconds


@pytest.mark.parametrize(
    "odd",
    [
        {"curve": []}, {"seconds": math.inf}, {"seconds": math.nan}, {"par": -1}, {"goal": "x"}, {"seconds": 10**400},
        {"curve": [[0, math.nan]]}, {"curve": 3},
    ],
    ids=repr,
)  # fmt: skip
def test_a_score_that_is_none_is_refused(odd: dict[str, Any]) -> None:
    data = TrainingScore("two alike", 1.5, 2.0, 0.27, ((0.0, 2.3),)).as_data()
    assert TrainingScore.from_data(data).seconds == 1.5
    with pytest.raises((ValueError, TypeError, OverflowError)):
        TrainingScore.from_data({**data, **odd})


def test_the_best_rehearsal_of_a_cluster_of_the_exercise_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("distlib.exercises.capstone_project.rehearsal.KEPT", (QUICK,))
    with simulated_only():
        for setting in (replace(QUICK, name="my own"), QUICK, QUICK):
            run = rehearse(a_few_steps, setting)
        monkeypatch.setattr("distlib.exercises.capstone_project.rehearsal.KEPT", (replace(QUICK, budget=0.1),))
        rehearse(a_few_steps, replace(QUICK, budget=0.1))
    (kept,) = best_plays(tmp_path)
    assert (kept.level, kept.level_name, kept.score) == (1, "two alike", round(run.seconds, 3))
    assert kept.earlier == () and kept.choices == {}


def test_the_clusters_that_are_kept_are_those_of_the_exercise(root: Path) -> None:
    notebook = nbformat.read(root / "exercises" / "19b_budget" / "19b_budget.ipynb", as_version=4)
    (cell,) = [cell for cell in notebook.cells if cell.source.startswith("CLUSTERS = [")]
    found: dict[str, Any] = {"Challenge": Challenge, "Cluster": Cluster, "Link": Link}
    exec(cell.source, found)
    assert tuple(found["CLUSTERS"]) == KEPT


def test_a_gpt_is_a_job_whose_gradients_are_sums_and_which_learns() -> None:
    job = GptJob()
    weights, optimizer = job.start(), job.optimizer(job.numbers)
    parts = job.gradient(weights, [0, 1]) + job.gradient(weights, [2])
    assert torch.allclose(job.gradient(weights, range(3)), parts) and parts.shape == (job.numbers,)
    before = job.loss(weights)
    for step in range(20):
        batch = job.samples[32 * step : 32 * step + 32]
        optimizer.step(weights, job.gradient(weights, batch) / 32, 0.003)
    assert torch.equal(job.start(), GptJob().start()), "a step changes the weights alone, not what one starts with"
    assert job.loss(weights) < 0.7 * before and 0 <= job.right(weights) <= 1


def test_what_does_not_end_is_told_by_a_rehearsal() -> None:
    with simulated_only(), pytest.raises(CheckFailed, match="each rank returns the weights"):
        rehearse(lambda comm, job: None, QUICK)


def test_a_rank_dies_and_the_others_are_judged() -> None:
    def survive(comm: Communicator, job: Job) -> torch.Tensor:
        weights, buffer = job.start(), torch.empty(NUMBERS).double()
        optimizer = job.optimizer(NUMBERS)
        for step in range(20):
            first = 40 * (step % 12)
            gradient = job.gradient(weights, job.samples[first : first + 40])
            try:
                comm.exchange(gradient, 1 - comm.rank, buffer, 1 - comm.rank)
            except PeerLost as error:
                assert list(error.lost) == [1 - comm.rank]
            optimizer.step(weights, gradient / 40, 0.05)
        return weights

    with simulated_only():
        report = check_survive(survive, settings=[replace(QUICK, deaths={1: 0.3})])
    assert report[0].results[1] is None
    assert len(report[0].trace) < 10


@pytest.mark.parametrize("seed", range(12))
def test_the_closed_form_of_the_notebook_predicts_any_plan(seed: int) -> None:
    plan = PlannedStep.drawn(Draw(seed))
    ranks = len(plan.shares)
    slowness = [plan.cluster.stragglers.get(rank, 1.0) for rank in range(ranks)]
    slowest = max(share * plan.seconds_per_sample * slow for share, slow in zip(plan.shares, slowness, strict=True))
    links = [plan.cluster.link(rank, (rank + 1) % ranks) for rank in range(ranks)]
    form = slowest + 2 * (ranks - 1) * max(link.seconds(8 * plan.numbers / ranks) for link in links)
    assert form == pytest.approx(simulated_seconds(plan), rel=0.05)
    assert sum(bytes_between(plan)) == 8 * plan.numbers * (ranks + 2)


def test_steps_of_one_process_use_the_whole_batch() -> None:
    case: Case = steps_case(Draw(4), [[3, 5], [0, 2]])
    after = steps_alone(case.inputs[0])
    assert len(after) == 2
    assert not torch.allclose(after[0], after[1])
    assert [len(batch) for batch in case.inputs[1]["batches"]] == [8, 2]
