"""What a training of the project counts for on the board: its virtual seconds, where the budget is half above par.

train_scores(report)        of a report of `check_train`, for `tell_trainings`
score_of(run)               of one run that has reached all that was asked for
seconds_and_par(run)        the two numbers of it
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from distlib.checks.seen import Seen
from distlib.checks.training_scores import TrainingScore
from distlib.exercises.capstone_project.training_run import TrainingRun

PAR = 2 / 3  # of the budget: about what the course's own solution takes on a bad day
_MOST_POINTS = 80  # of a curve


def train_scores(passed: Iterable[Seen]) -> list[TrainingScore]:
    """The scores of cases that have passed."""
    return [score_of(TrainingRun(seen)) for seen in passed]


def score_of(run: TrainingRun) -> TrainingScore:
    """The score of a run within its budget."""
    seconds, par = seconds_and_par(run)
    curve = [*run.curve()[:-1], (seconds, run.loss)]  # until the last rank has the result, not rank 0
    return TrainingScore(run.setting.name, seconds, par, run.setting.target, _thinned(curve))


def seconds_and_par(run: TrainingRun) -> tuple[float, float]:
    """The virtual seconds of a run, and those that are par, to the millisecond."""
    return round(run.seconds, 3), round(PAR * run.setting.budget, 3)


def _thinned(curve: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """A curve with few enough points, the first and the last among them, without losses that are not finite."""
    finite = [(round(seconds, 3), round(loss, 4)) for seconds, loss in curve if math.isfinite(loss)]
    every = -(-(len(finite) - 1) // (_MOST_POINTS - 1)) or 1
    return (*finite[:-1:every], finite[-1])
