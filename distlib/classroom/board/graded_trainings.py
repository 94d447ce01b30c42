"""What the trainings of a class have reached when they were graded: the judge's seconds, from the students' records.

    classroom/graded/19b_budget/students/ada/record.json

The seconds were taken on the judge's clock, and no student's file has any. A training whose answer reaches inside,
where a rank could lie about what it holds, is left out, and the instructor is told.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from distlib.checks.training_scores import TrainingScore
from distlib.classroom.board.standings import BoardRun
from distlib.classroom.grader.course import Course
from distlib.classroom.grader.student_record import Record, read_records
from distlib.draw.players.loss_scene import loss_scene
from distlib.draw.players.still import still_svg
from distlib.games.course_game import ScoredGame
from distlib.judge.remote.introspection_remarks import REACHES_INSIDE


class TrainingGame(ScoredGame):
    """An exercise whose trainings have scores, on the board: a level for each setting, which the test has named.

    Args:
        assignment: its name.
        pars: by setting, the seconds that are par; in the order of the levels.
    """

    unit, less_is_better, digits = "s", True, 3
    remark = (
        "The judge took these virtual seconds when it graded the exercise. All who are graded together have the same "
        "data. With other data the same program usually takes a tenth more or less, at times a quarter."
    )

    def __init__(self, assignment: str, pars: dict[str, float]) -> None:
        self.name = self.lesson = assignment
        self.title = "The project"
        self.levels = dict(enumerate(pars, start=1))
        self._pars = dict(enumerate(pars.values(), start=1))

    def par(self, level: int) -> float:
        """As the test has told it."""
        return self._pars[level]


@dataclass(frozen=True)
class GradedTrainings:
    """The trainings of an exercise.

    Attributes:
        game: the exercise as a game of the board.
        runs: those that count.
        problems: by student, why others don't.
    """

    game: TrainingGame
    runs: tuple[BoardRun, ...]
    problems: dict[str, str]


def read_trainings(course: Course) -> list[GradedTrainings]:
    """The trainings of every exercise whose tests tell some, of students who have handed it in."""
    graded = course.records("x").parent
    found = list[GradedTrainings]()
    for assignment in sorted(path.name for path in graded.glob("*") if path.is_dir()):
        there = set(course.students(assignment))
        records = read_records(course, assignment).values()
        told = [record for record in records if record.student in there and not record.problem and record.trainings]
        found += [_of_exercise(assignment, told)] if told else []
    return found


def _of_exercise(assignment: str, records: Sequence[Record]) -> GradedTrainings:
    scores, problems = dict[str, list[TrainingScore]](), dict[str, str]()
    for record in records:
        try:
            scores[record.student] = [TrainingScore.from_data(each) for each in record.trainings]
        except (KeyError, TypeError, ValueError, OverflowError):
            problems[record.student] = f"{assignment}: the seconds in its record can't be read; grade it again"
    tests = Counter(_asked(each) for each in scores.values())
    test = max(tests, key=lambda asked: (tests[asked], asked), default=())
    for record in records:
        if record.student in scores and _asked(scores[record.student]) != test:
            problems[record.student] = f"{assignment}: graded with another version of the test; grade it again"
        elif any(remark.startswith(REACHES_INSIDE) for remark in record.remarks):
            problems[record.student] = f"{assignment}: its answer reaches inside, so its seconds are not on the board"
    game = TrainingGame(assignment, {setting: par for setting, par, _ in test})
    counted = {student: told for student, told in scores.items() if student not in problems}
    return GradedTrainings(game, tuple(_runs(game, counted)), problems)


def _asked(scores: Sequence[TrainingScore]) -> tuple[tuple[str, float, float], ...]:
    """What a test has asked for."""
    return tuple((score.setting, score.par, score.goal) for score in scores)


def _runs(game: TrainingGame, told: dict[str, list[TrainingScore]]) -> Iterable[BoardRun]:
    numbers = {name: number for number, name in game.levels.items()}
    for student, scores in told.items():
        for score in scores:
            words = f"the loss reaches {score.curve[-1][1]:.3g} after {game.in_words(score.seconds)}"
            scene = loss_scene(score.curve, score.goal, f"A training: {score.setting}", words)
            made_of = json.dumps(score.as_data(), sort_keys=True)
            svg = still_svg(scene, "currentColor")
            yield BoardRun(student, game.name, numbers[score.setting], score.seconds, made_of, svg, scene.alt)
