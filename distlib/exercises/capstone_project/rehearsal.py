"""A training of a student's, run to look at: nothing is judged.

    run = rehearse(train, Challenge("a slow network", Cluster.flat(4, Link(0.3, 1e6)), budget=24.0))
    print(run)
    run.seconds, run.loss, run.curve(), run.trace

It runs on simulated ranks, as in the test. Of the exercise's own clusters the best run that meets target, memory and
budget is kept in the student's file, with the games of the course: `distlib board` shows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from distlib.checks.formatting import count
from distlib.checks.remark import CheckFailed
from distlib.checks.task import Draw, show_printed
from distlib.exercises.capstone_project.board_scores import seconds_and_par
from distlib.exercises.capstone_project.checks import check_survive, check_train
from distlib.exercises.capstone_project.job_cases import Challenge, training_case
from distlib.exercises.capstone_project.training_run import TrainingRun
from distlib.games.keep_here import keep_here
from distlib.games.my_games import BestPlay
from distlib.games.who_chose import BY_FUNCTION
from distlib.network import Cluster, Link
from distlib.trace import Trace

_SECONDS = 60.0  # real ones

# The clusters of the exercise, as they stand there: runs on others are not kept.
KEPT = (
    Challenge("four alike", Cluster.flat(4, Link(2e-3, 1e7)), budget=3.2),
    Challenge("a slow network", Cluster.flat(4, Link(0.3, 1e6)), budget=24.0),
    Challenge("little memory", Cluster.flat(4, Link(2e-3, 1e7)), budget=3.2, bytes_per_number=22),
    Challenge("a slow rank", Cluster.flat(4, Link(2e-3, 1e7), stragglers={2: 6.0}), budget=4.8),
    Challenge("two nodes", Cluster(2, 4, Link(1e-3, 1e8), Link(4e-3, 1e7)), budget=4.6),
)


class Rehearsal(TrainingRun):
    """A training that has come to its end, whatever it has reached. Print it; `curve` is its loss by virtual time."""

    @property
    def trace(self) -> Trace:
        return self.seen.trace

    @property
    def memory(self) -> int:
        """The most bytes that a rank held when it called gradient for the fourth time."""
        return max(self.seen[rank]["alive"] for rank in self.living)

    def __str__(self) -> str:
        asked = self.setting
        limit = "no limit" if math.isinf(asked.memory) else f"allowed: {asked.memory:,.0f}"
        return "\n".join(
            [
                f"{asked.name}: {self.seconds:.2f} s of {asked.budget:g} s",
                f"  loss                    {self.loss:.4f}, to reach: {asked.target:g}",
                f"  memory                  {self.memory:,} bytes on the fullest rank, {limit}",
                f"  gradients, by rank      {', '.join(count(self.samples(r), 'sample') for r in self.living)}",
                f"  computing, by rank      {', '.join(f'{self.computed(r):.2f} s' for r in self.living)}",
                f"  calls on a rank         {self.calls} of gradient, {self.losses} of loss",
                f"  messages                {len(self.trace):,}, {sum(self.trace.bytes_sent):,} bytes",
            ]
        )


def rehearse(function: Callable[..., Any], setting: Challenge, *, seed: int = 1) -> Rehearsal:
    """Run `function(comm, job)` on a setting, in virtual time.

    Raises:
        CheckFailed: it did not come to its end, or returned no weights.
    """
    check = check_survive if setting.deaths else check_train
    case = replace(training_case(Draw(seed), setting), function=getattr(function, "__name__", "train"))
    simulated, _ = check.venues(function, case.full_title)
    seen = simulated.play(case, _SECONDS)
    if seen.printed:
        show_printed(seen.printed, case.full_title)
    if seen.error is not None or TrainingRun(seen).weights(0) is None:
        remark = check.remark(seen)
        assert remark is not None, "a judge lets no such run pass"
        raise CheckFailed(case.full_title, remark)
    if setting in KEPT:
        keep_here(lambda: None if check.remark(seen) or check.remark_on_times(seen) else _best_play(TrainingRun(seen)))
    return Rehearsal(seen)


def _best_play(run: TrainingRun) -> BestPlay:
    level, (seconds, par) = KEPT.index(run.setting) + 1, seconds_and_par(run)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    about = ("19b_budget", "The project", "19b_budget", level, run.setting.name)
    return BestPlay(*about, seconds, "s", True, par, at, {}, by=BY_FUNCTION)
