"""A student's own course as a value, and what comes next in it. It knows no files; `course_reading` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from distlib.classroom.grader.point_sum import PointSum
from distlib.classroom.my_course.evidence import Evidence, LastCheck, WrittenText
from distlib.classroom.my_course.lesson_promise import LessonPromise
from distlib.classroom.my_course.notebooks_seen import SeenNotebook
from distlib.classroom.my_course.predictions_made import PredictionsMade
from distlib.classroom.my_course.written_functions import WrittenFunction
from distlib.classroom.self_check.results import FAILS, PASSES
from distlib.classroom.student_copies.copy_paths import lesson_of
from distlib.classroom.words import joined
from distlib.games import BestPlay

ENOUGH = 0.9  # of its cells: a lesson counts as run although a cell or two did not
NOT_WRITTEN = "not written"


@dataclass(frozen=True)
class OwnExercise:
    """An exercise.

    Attributes:
        name: such as "02_all_reduce".
        promise: what it promises.
        functions: those it asks for.
        last: what its last check said.
        texts: the answers in words that it asks for.
        handed_in: when it was handed in last; None if it never was.
        marks: those that came back; None if none did.
        due: when it is due, with a time zone; None if nobody knows.
    """

    name: str
    promise: LessonPromise
    functions: Sequence[WrittenFunction]
    last: LastCheck = LastCheck()
    texts: Sequence[WrittenText] = ()
    handed_in: datetime | None = None
    marks: PointSum | None = None
    due: datetime | None = None

    @property
    def number(self) -> str:
        return self.name.partition("_")[0]

    def state(self, function: WrittenFunction) -> str:
        """NOT_WRITTEN, or what the last check can say of the code as it stands, see `LastCheck.verdict`."""
        return self.last.verdict(function.name, function.source) if function.source else NOT_WRITTEN

    def names(self, *states: str) -> list[str]:
        """The functions in one of these states."""
        return [each.name for each in self.functions if self.state(each) in states]

    @property
    def evidence(self) -> Evidence:
        """What was done in it by hand."""
        return Evidence(functions=len(self.functions), passing=self.names(PASSES), texts=self.texts, marks=self.marks)

    @property
    def passes(self) -> bool:
        """Whether every function passed the last check, as it stands."""
        return self.evidence.all_pass

    @property
    def is_begun(self) -> bool:
        """Whether anything is written in it."""
        return any(each.source for each in self.functions) or bool(self.evidence.written)

    @property
    def minutes_done(self) -> float:
        """Of the minutes that it takes, those of which there is evidence."""
        return self.promise.minutes * self.evidence.share_solved

    @property
    def next(self) -> str:
        """What to do next in it, as a command; "" if there is nothing to do."""
        if self.handed_in or not self.functions:
            return ""
        if self.passes:
            return f"Hand in exercise {self.number} (distlib hand-in {self.number})"
        if wrong := self.names(FAILS):
            return f"Mend {joined(wrong)} in exercise {self.number} (distlib check {self.number} says what is wrong)"
        if missing := self.names(NOT_WRITTEN):
            verb = "Write" if len(missing) < len(self.functions) else f"Begin exercise {self.number}: write"
            where = f" in exercise {self.number}" if verb == "Write" else ""
            return f"{verb} {missing[0]}{where}"
        return f"Check exercise {self.number} (distlib check {self.number})"


@dataclass(frozen=True)
class OwnLesson:
    """A lesson, and its exercise where it has one; or an exercise alone, see `exercise_alone`.

    Attributes:
        name: such as "02_all_reduce".
        promise: what it promises.
        seen: what ran in it.
        exercise: of this lesson; None if it has none.
        predictions: what it asks, and what was committed.
        is_exercise: whether it is an exercise alone.
    """

    name: str
    promise: LessonPromise
    seen: SeenNotebook
    exercise: OwnExercise | None = None
    predictions: PredictionsMade = PredictionsMade()
    is_exercise: bool = False

    @property
    def number(self) -> str:
        return self.name.partition("_")[0]

    @property
    def title(self) -> str:
        """As a sentence names it: "lesson 02, All-reduce"."""
        return f"{'exercise' if self.is_exercise else 'lesson'} {self.number}, {self.promise.short_title}"

    @property
    def has_run(self) -> bool:
        """Whether its cells have run, but for one or two. That says nothing about who has run them, and why.

        An exercise alone has no lesson to run.
        """
        return self.is_exercise or self.seen.share >= ENOUGH

    @property
    def is_done(self) -> bool:
        """Whether it has run, and there is evidence of work that can bear that."""
        return self.has_run and self.evidence.bears_done

    @property
    def evidence(self) -> Evidence:
        """What was done by hand, in it and in its exercise."""
        of_exercise = self.exercise.evidence if self.exercise else Evidence()
        return replace(of_exercise, asked=len(self.predictions.asked), predictions=self.predictions.counted)

    @property
    def is_begun(self) -> bool:
        """Whether anything was done in it, or in its exercise."""
        return self.seen.ran > 0 or (self.exercise is not None and self.exercise.is_begun)

    @property
    def minutes_done(self) -> float:
        """Of the minutes that it takes with its exercise, those of which there is evidence."""
        read = self.promise.minutes * min(1.0 if self.has_run else self.seen.share, self.evidence.share_predicted)
        return read + (self.exercise.minutes_done if self.exercise else 0.0)

    @property
    def minutes(self) -> int:
        """How long it takes, with its exercise."""
        return self.promise.minutes + (self.exercise.promise.minutes if self.exercise else 0)

    @property
    def next(self) -> str:
        """What to do next in it, as a command; "" if there is nothing to do."""
        if not self.has_run and not self.seen.ran:
            return f"Open {self.title}"
        if not self.has_run:
            return f"Go on with {self.title}: {self.seen.ran} of {self.seen.cells} cells have run"
        return self.exercise.next if self.exercise else ""


def exercise_alone(exercise: OwnExercise) -> OwnLesson:
    """An exercise that has no lesson of its name. It is a side road, so it is optional."""
    title = exercise.promise.title[:1].upper() + exercise.promise.title[1:]
    promise = replace(exercise.promise, title=title, minutes=0, able=(), is_optional=True)
    return OwnLesson(exercise.name, promise, SeenNotebook(0, 0, "", ""), exercise, is_exercise=True)


@dataclass(frozen=True)
class OwnCourse:
    """All of it.

    Attributes:
        lessons: in the course's order, with exercises that have none among them.
        last: where the student was: the path in `work/` of the notebook that was worked on last; "" for nowhere.
        remarks: what can't be read, and the like: sentences.
        games: the best play of each level, in the order of lessons.
    """

    lessons: Sequence[OwnLesson]
    last: str
    remarks: Sequence[str] = ()
    games: Sequence[BestPlay] = ()

    @property
    def exercises(self) -> list[OwnExercise]:
        """In the course's order."""
        return [lesson.exercise for lesson in self.lessons if lesson.exercise]

    @property
    def counted(self) -> list[OwnLesson]:
        """The lessons whose hours count: all that are not optional, and optional ones that were begun."""
        return [lesson for lesson in self.lessons if not lesson.promise.is_optional or lesson.is_begun]

    @property
    def counted_lessons(self) -> list[OwnLesson]:
        """Of these, all but exercises alone."""
        return [lesson for lesson in self.counted if not lesson.is_exercise]

    @property
    def minutes_done(self) -> float:
        """By what the notebooks promise."""
        return sum(lesson.minutes_done for lesson in self.counted)

    @property
    def minutes_to_come(self) -> float:
        """What is left of the minutes that the notebooks promise."""
        return sum(lesson.minutes for lesson in self.counted) - self.minutes_done

    @property
    def next_step(self) -> str:
        """What to do next, in one sentence: from where the student was, then from the beginning."""
        here = self._here()
        for lesson in [*self.lessons[here:], *self.lessons[:here]]:
            if lesson.promise.is_optional and not lesson.is_begun:
                continue
            if lesson.next:
                hands_in = lesson.has_run and lesson.exercise is not None and lesson.exercise.passes
                then = next_lesson(self.lessons, lesson.name) if hands_in else None
                return f"{lesson.next}, then go on with {then.title}." if then else f"{lesson.next}."
        return "You have come to the end. Show it: distlib report"

    def _here(self) -> int:
        """The index of the lesson where the student was."""
        names = [lesson.name for lesson in self.lessons]
        name = lesson_of(self.last)
        return names.index(name) if name in names else 0


def next_lesson(lessons: Sequence[OwnLesson], name: str) -> OwnLesson | None:
    """The lesson after the one of this name that is not optional; None after the last."""
    later = [lesson for lesson in lessons if lesson.name > name and not lesson.promise.is_optional]
    return later[0] if later else None
