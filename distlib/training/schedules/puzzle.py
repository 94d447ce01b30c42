"""Fill the grid: a puzzle. Write a schedule for given ranks, microbatches, costs and memory, and reach par.

    fill(1, '''rank 0  F0 F1 .. .. B0 B1          F0    forward of microbatch 0, on this rank's stage
               rank 1  .. F0 B0 F1 B1 ..''')      ..    waiting; may be left out: when an action runs follows from
                                                        what it waits for

A rank has one stage. A microbatch is kept from its F to its B, or to its W. Points, rounded down:

    time      10 · (par's seconds / your seconds)
    memory    10 · (par's memory / your memory)        memory: the most microbatches that a rank keeps, all ranks added
              at most the points for time, while those are below 10: else waiting would pay

20 points are par; more are better. Everything is virtual time, so the same grid always gets the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from distlib.training.schedules.actions import (
    BACKWARD,
    FORWARD,
    INPUT,
    KINDS,
    WEIGHT,
    Action,
    Schedule,
    microbatches_in,
)
from distlib.training.schedules.execution import ScheduleError, check_schedule
from distlib.training.schedules.gpipe import gpipe
from distlib.training.schedules.memory import most_live
from distlib.training.schedules.one_forward_one_backward import in_turn, one_forward_one_backward
from distlib.training.schedules.timing import Costs, Timing, time_schedule
from distlib.training.schedules.zero_bubble import zero_bubble

Grid = str | Iterable[Iterable[Action | str]]
"""A schedule as text, a line per rank; or by rank its actions, each as Action or as "F0"."""


@dataclass(frozen=True)
class Level:
    """What is asked for.

    Attributes:
        number, name: from 1 on, and the name of the schedule that is par.
        ranks, microbatches: how many.
        costs: what each action takes.
        room: the most microbatches that a rank may keep.
        halves: whether backward passes may be cut into I and W.
        par: makes the schedule that is par, from `ranks` and `microbatches`.
    """

    number: int
    name: str
    ranks: int
    microbatches: int
    room: int
    par: Callable[[int, int], Schedule] = field(repr=False)
    costs: Costs = Costs()
    halves: bool = False

    @cached_property
    def par_seconds(self) -> float:
        """The seconds of a schedule that is at par."""
        return time_schedule(self.par(self.ranks, self.microbatches), self.costs).seconds

    @cached_property
    def par_memory(self) -> int:
        """The most microbatches that a rank keeps, all ranks added, of par."""
        return sum(most_live(self.par(self.ranks, self.microbatches), up_to_weight=True))

    def __str__(self) -> str:
        cuts = "; backward passes may be cut into I and W" if self.halves else ""
        return (
            f"Level {self.number}, {self.name}: {self.ranks} ranks, {self.microbatches} microbatches; "
            f"room for {self.room} on each rank{cuts}. {_costs_in_words(self)}. "
            f"Par: time {self.par_seconds:g}, memory {self.par_memory}."
        )


@dataclass(frozen=True)
class Attempt:
    """A schedule that was checked and timed.

    Attributes:
        level: for which it is.
        schedule: by rank, its actions.
        timing: when each action runs.
    """

    level: Level
    schedule: Schedule
    timing: Timing

    @property
    def memory(self) -> int:
        """The most microbatches that a rank keeps, all ranks added."""
        return sum(most_live(self.schedule, up_to_weight=True))

    @property
    def time_points(self) -> int:
        """10 for par's time."""
        return int(10 * self.level.par_seconds / self.timing.seconds + 1e-9)

    @property
    def memory_points(self) -> int:
        """10 for par's memory; at most `time_points` while those are below 10."""
        points = int(10 * self.level.par_memory / self.memory + 1e-9)
        return points if self.time_points >= 10 else min(points, self.time_points)

    @property
    def points(self) -> int:
        """The points of an attempt; 20 for par."""
        return self.time_points + self.memory_points

    def __str__(self) -> str:
        level = self.level
        return "\n".join(
            [
                f"time    {self.timing.seconds:4g}, par {level.par_seconds:4g}: {self.time_points:2} points",
                f"memory  {self.memory:4}, par {level.par_memory:4}: {self.memory_points:2} points",
                f"level {level.number}: {self.points} points{_verdict(self.points)}",
            ]
        )


def _verdict(points: int) -> str:
    return ", par" if points == 20 else ", better than par" if points > 20 else f", {20 - points} from par"


def _early(num_stages: int, num_microbatches: int) -> Schedule:
    """1F1B with twice the warm-up: enough to be at work while a message is on its way there, and back."""
    rows = []
    for stage in range(num_stages):
        forwards = [Action(stage, FORWARD, microbatch) for microbatch in range(num_microbatches)]
        backwards = [Action(stage, BACKWARD, microbatch) for microbatch in range(num_microbatches)]
        rows.append(in_turn(forwards, backwards, warmup=2 * (num_stages - stage - 1)))
    return rows


LEVELS = (
    Level(1, "GPipe", 2, 2, 2, gpipe),
    Level(2, "GPipe", 3, 4, 4, gpipe),
    Level(3, "1F1B", 3, 4, 3, one_forward_one_backward),
    Level(4, "1F1B", 4, 8, 4, one_forward_one_backward),
    Level(5, "zero bubble", 3, 4, 3, zero_bubble, halves=True),
    Level(6, "slow links", 4, 8, 7, _early, Costs(transfer=1.0)),
    Level(7, "zero bubble", 4, 8, 4, zero_bubble, halves=True),
)
"""The levels, which get harder."""


def fill(number: int, grid: Grid) -> Attempt:
    """Check a schedule for a level, and time it.

    Args:
        number: of the level, from 1 on.
        grid: see `Grid`.

    Raises:
        ScheduleError: a word that is not an action, an action that the level does not have, is missing or stands
            twice, what waits forever, or the first action for which a rank has no room.
        ValueError: no such level.
    """
    level = level_of(number)
    schedule = read_grid(grid)
    _check_sizes(level, schedule)
    check_schedule(schedule)
    _check_room(level, schedule)
    return Attempt(level, schedule, time_schedule(schedule, level.costs))


def level_of(number: int) -> Level:
    """A level by its number, from 1 on.

    Raises:
        ValueError: there is none.
    """
    if number not in range(1, len(LEVELS) + 1):
        raise ValueError(f"expected a level from 1 to {len(LEVELS)}, got {number!r}")
    return LEVELS[number - 1]


def read_grid(grid: Grid) -> list[list[Action]]:
    """The schedule in a grid. Dots and dashes are left out, and "rank 0" at the beginning of a line.

    Raises:
        ScheduleError: a word that is not an action.
    """
    if isinstance(grid, str):
        lines = [line.split() for line in grid.splitlines() if line.strip()]
        grid = [words[2:] if words[0] == "rank" else words for words in lines]
    return [
        [_read(rank, position, word) for position, word in enumerate(row, start=1) if str(word).strip(".-")]
        for rank, row in enumerate(grid)
    ]


def _read(rank: int, position: int, word: Action | str) -> Action:
    if isinstance(word, Action):
        return word
    try:
        return Action.parse(word if word[:1].isdigit() else f"{rank}{word}")
    except ValueError:
        raise ScheduleError(
            f"rank {rank}, place {position}: expected an action such as F0 (or .. for waiting), got {word!r}"
        ) from None


def _check_sizes(level: Level, schedule: Schedule) -> None:
    if len(schedule) != level.ranks:
        raise ScheduleError(f"expected a line for each of {level.ranks} ranks, got {len(schedule)}")
    kinds = KINDS if level.halves else FORWARD + BACKWARD
    for rank, actions in enumerate(schedule):
        for action in actions:
            if action.stage != rank:
                raise ScheduleError(f"rank {rank} has stage {rank} alone in this puzzle, got {action} there")
            if action.kind not in kinds:
                raise ScheduleError(f"rank {rank}: expected {', '.join(kinds)} in level {level.number}, got {action}")
        missing = [number for number in range(level.microbatches) if Action(rank, FORWARD, number) not in actions]
        if missing:
            raise ScheduleError(f"rank {rank}: {Action(rank, FORWARD, missing[0])} is missing")
    if microbatches_in(schedule) != level.microbatches:
        raise ScheduleError(
            f"expected microbatches 0 to {level.microbatches - 1}, got up to {microbatches_in(schedule) - 1}"
        )


def _check_room(level: Level, schedule: Schedule) -> None:
    for rank, actions in enumerate(schedule):
        live = 0
        for action in actions:
            live += (action.kind == FORWARD) - (action.kind in (BACKWARD, WEIGHT))
            if live > level.room:
                raise ScheduleError(
                    f"rank {rank} has room for {level.room} microbatches, and {action} would be number {live}: "
                    f"put {'a W' if level.halves else 'a B'} before it"
                )


def _costs_in_words(level: Level) -> str:
    kinds = FORWARD + BACKWARD + (INPUT + WEIGHT) * level.halves
    costs = [(level.costs.of(Action(0, kind, 0)), kind) for kind in kinds]
    alike = [(cost, [kind for _, kind in pairs]) for cost, pairs in groupby(sorted(costs), key=lambda pair: pair[0])]
    words = "; ".join(
        f"{' and '.join(of)} take {cost:g}" if len(of) > 1 else f"{of[0]} takes {cost:g}" for cost, of in alike
    )
    return words + (f"; a message takes {level.costs.transfer:g}" if level.costs.transfer else "")


def score_card(attempts: Sequence[Attempt]) -> str:
    """The best attempt at each level, and the sum, as text."""
    lines = ["level             time  memory  points"]
    total = 0
    for level in LEVELS:
        best = max((each for each in attempts if each.level == level), key=lambda each: each.points, default=None)
        name = f"{level.number} {level.name}"
        lines.append(
            f"{name:16} {best.timing.seconds:5g}  {best.memory:6}  {best.points:6}" if best else f"{name:16}     -"
        )
        total += best.points if best else 0
    return "\n".join([*lines, f"{total} points; par is {20 * len(LEVELS)}"])
