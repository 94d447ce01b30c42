"""The scene of a pipeline: a lane for each rank, actions that are done one after another, and what the rank keeps.

    rank 0  │F0│F1│F2│F3│       │B0│F4│      ▕4▏▕1▏▕2▏▕3▏  4 kept      a slot for each microbatch that is kept,
    rank 1  ···│F0│F1│F2│    │B0│F3│         ▕3▏▕1▏▕2▏     3 kept      as high as what is kept of it is large

A step is a moment at which an action ends. A forward pass fills a slot, the backward pass frees it, and the next one
takes the first that is free. So the slots of a rank are the most that it ever keeps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from distlib.draw.charts.action_looks import key_of, look_of, stages_of_rank, words_in_boxes
from distlib.draw.charts.pipelines import describe_pipeline
from distlib.draw.players.scene import INK, Look, Scene, SceneStep, Shape, box, runs, write
from distlib.draw.style import SMALL, TITLE, WIDTH, count, format_bytes, format_number, format_seconds, text_on
from distlib.training.schedules import Action, ActionSpan, Timing

Key = tuple[int, int]
"""A stage, and a microbatch."""

Kept = Sequence[Sequence[Mapping[Key, float]]]
"""By rank, after each of its actions, the bytes that are kept of each microbatch."""

_LEFT, _TOP, _SHELF, _BELOW = 66.0, 62.0, 264.0, 44.0  # CSS pixels: rank names, titles, slots, the axis
_TEXT = 92.0  # CSS pixels right of the slots


def pipeline_scene(timing: Timing, title: str, kept: Kept | None) -> Scene:
    """The scene of a schedule that was timed, or of a pipeline that ran. `kept`: None to derive it from the actions."""
    plan = _plan(timing, kept)
    shapes = [*_background(plan, title), *_actions(plan), *_shelves(plan)]
    height = _TOP + plan.lane * len(timing.spans) + _BELOW
    steps = [_step(plan, number) for number in range(len(plan.moments))]
    return Scene(title, WIDTH, height, shapes, steps, describe_pipeline(timing, title), "a box")


@dataclass(frozen=True)
class _PipelinePixels:
    timing: Timing
    kept: Kept
    measured: bool  # whether `kept` has bytes
    moments: Sequence[float]  # when each step ends; the first is the start
    lane: float

    def x(self, seconds: float) -> float:
        first, last = self.moments[0], self.moments[-1]
        return _LEFT + (WIDTH - _LEFT - _SHELF) * (seconds - first) / (last - first)

    def y(self, rank: int) -> float:
        return _TOP + self.lane * rank + 3

    @property
    def high(self) -> float:
        """CSS pixels: a box of the whole lane."""
        return self.lane - 6

    def step_of(self, seconds: float) -> int:
        """The first step at or after this moment."""
        rounding = 1e-9 * (self.moments[-1] - self.moments[0])
        return bisect_left(self.moments, seconds - rounding)

    def kept_in(self, rank: int) -> list[Mapping[Key, float]]:
        """What a rank keeps in each step."""
        found: list[Mapping[Key, float]] = [{}] * len(self.moments)
        for span, after in zip(self.timing.spans[rank], self.kept[rank], strict=True):
            first = self.step_of(span.end)
            found[first:] = [after] * (len(found) - first)
        return found


def _plan(timing: Timing, kept: Kept | None) -> _PipelinePixels:
    spans = [span for row in timing.spans for span in row]
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    moments = [first]
    for end in sorted(span.end for span in spans):
        if end - moments[-1] > 1e-9 * (last - first):  # else the same moment, but for rounding
            moments.append(end)
    lane = max(22.0, min(46.0, 368 / len(timing.spans)))
    return _PipelinePixels(
        timing, kept if kept is not None else kept_by_actions(timing), kept is not None, moments, lane
    )


def kept_by_actions(timing: Timing) -> list[list[dict[Key, float]]]:
    """What is kept after each action, by its kind alone: 1 from F to B or I, and a half from I to W."""
    rows = []
    for spans in timing.spans:
        now: dict[Key, float] = {}
        row = []
        for span in spans:
            stage, kind, microbatch = span.action
            now.pop((stage, microbatch), None)
            now |= {(stage, microbatch): 1.0 if kind == "F" else 0.5} if kind in "FI" else {}
            row.append(dict(now))
        rows.append(row)
    return rows


# ── what is drawn ────────────────────────────────────────────────────────────────────────────────────────────────────


def _background(plan: _PipelinePixels, title: str) -> Iterator[Shape]:
    ranks, right = len(plan.timing.spans), WIDTH - _SHELF
    bottom = _TOP + plan.lane * ranks
    yield write(6, 20, title, TITLE, bold=True)
    yield from _key(plan)
    yield write(right + 20, 50, "kept for the backward pass", SMALL)
    for rank in range(ranks):
        yield write(_LEFT - 10, plan.y(rank) + plan.high / 2 + 4, f"rank {rank}", 12, anchor="end", sticks=True)
        yield box(_LEFT, plan.y(rank), right - _LEFT, plan.high, {"fill": INK, "opacity": 0.1})
    for number, moment in enumerate(plan.moments):
        x = plan.x(moment)
        when: dict[str, Any] = {"first": number, "end": number + 1}
        yield box(x - 0.75, _TOP - 4, 1.5, bottom - _TOP + 8, {"fill": INK}, **when)
        words = format_seconds(moment - plan.moments[0]) if number else "start"
        yield write(x, bottom + 20, words, SMALL, anchor="middle", **when)
    yield write(right, bottom + 36, "time since the first action", 12, anchor="end")


def _key(plan: _PipelinePixels) -> Iterator[Shape]:
    """What the colors mean, and what is low. A letter is at most 8 CSS pixels wide."""
    x = 6.0
    for name, color in key_of([plan.timing]).items():
        yield box(x, 31, 20, 11, {"fill": color, "stroke": INK, "stroke-width": 0.6})
        yield write(x + 26, 40, name, SMALL)
        x += 26 + 7 * len(name) + 12
    words = ["gray: waits"] + ["dark: the rank's second stage"] * any(
        len(stages_of_rank(spans)) > 1 for spans in plan.timing.spans
    )
    yield write(x, 40, "; ".join(words), SMALL)


def _actions(plan: _PipelinePixels) -> Iterator[Shape]:
    pixels = plan.x(plan.moments[0] + 1) - _LEFT
    words = words_in_boxes(plan.timing, lambda text, long: 0.7 * SMALL * len(text) + 3 <= long * pixels)
    for rank, spans in enumerate(plan.timing.spans):
        stages = stages_of_rank(spans)
        for span in spans:
            yield from _action(plan, rank, span, stages, words.get(span.action, ""))


def _action(plan: _PipelinePixels, rank: int, span: ActionSpan, stages: Sequence[int], words: str) -> Iterator[Shape]:
    """A box from the step on in which the action ends; until then a dashed one that grows."""
    look, done = look_of(span.action, stages), plan.step_of(span.end)
    left, top = plan.x(span.start), plan.y(rank) + look.top * plan.high
    width, high = plan.x(span.end) - left, (look.bottom - look.top) * plan.high
    tip = f"rank {rank}: {_tell(span.action)}, {_seconds(plan, span)}"
    for step in range(1, done):
        if plan.moments[step] > span.start and plan.step_of(plan.moments[step]) > plan.step_of(span.start):
            grows: Look = {"fill": look.color, "fill-opacity": 0.3, "stroke": INK, "stroke-dasharray": "3 2"}
            yield box(left, top, plan.x(plan.moments[step]) - left, high, grows, first=step, end=step + 1, tip=tip)
    yield box(left, top, width, high, {"fill": look.color, "stroke": INK, "stroke-width": 0.6}, first=done, tip=tip)
    if words and high >= SMALL - 1:
        middle = left + width / 2, top + high / 2 + 0.36 * SMALL
        yield write(*middle, words, SMALL, anchor="middle", fill=text_on(look.color), first=done)
    now: Look = {"fill": "none", "stroke": INK, "stroke-width": 2.5}
    yield box(left, top, width, high, now, first=done, end=done + 1)


def _seconds(plan: _PipelinePixels, span: ActionSpan) -> str:
    start, end = (format_seconds(moment - plan.moments[0]) for moment in (span.start, span.end))
    return f"from {start} to {end}"


@dataclass(frozen=True)
class _Slot:
    """A column of a rank's shelf, what is in it, and in which steps."""

    column: int
    key: Key
    first: int
    end: int | None
    size: float


def _shelves(plan: _PipelinePixels) -> Iterator[Shape]:
    shelves = [_slots(plan.kept_in(rank)) for rank in range(len(plan.timing.spans))]
    most = max([1, *(slot.column + 1 for slots in shelves for slot in slots)])
    largest = max([1e-9, *(slot.size for slots in shelves for slot in slots)])
    width = min(26.0, (_SHELF - 20 - _TEXT) / most)
    left = WIDTH - _SHELF + 20
    for rank, slots in enumerate(shelves):
        for column in range(1 + max((slot.column for slot in slots), default=-1)):
            empty: Look = {"fill": "none", "stroke": INK, "opacity": 0.4, "stroke-dasharray": "2 2"}
            yield box(left + column * width, plan.y(rank), width - 2, plan.high, empty)
        for slot in slots:
            high = max(3.0, plan.high * slot.size / largest)
            yield from _slot(plan, rank, slot, left + slot.column * width, width - 2, high)
        yield from _totals(plan, rank, left + most * width + 5)


def _slot(plan: _PipelinePixels, rank: int, slot: _Slot, left: float, width: float, high: float) -> Iterator[Shape]:
    """A microbatch on the shelf, as high as what is kept of it is large."""
    stage, microbatch = slot.key
    color = look_of(Action(stage, "F", microbatch), stages_of_rank(plan.timing.spans[rank])).color
    much = f": {format_bytes(slot.size)}" if plan.measured else ", for W alone" if slot.size < 1 else ""
    tip = f"rank {rank} keeps microbatch {microbatch} of stage {stage}{much}"
    when: dict[str, Any] = {"first": slot.first, "end": slot.end}
    top = plan.y(rank) + plan.high - high
    yield box(left, top, width, high, {"fill": color, "stroke": INK}, tip=tip, **when)
    if width >= 8 * len(str(microbatch)) and high >= 10:
        words = str(microbatch), SMALL
        yield write(left + width / 2, top + high / 2 + 4, *words, anchor="middle", fill=text_on(color), **when)


def _slots(kept: Sequence[Mapping[Key, float]]) -> list[_Slot]:
    """The slots of a rank. Each microbatch takes the first that is free, and stays in it when its size changes."""
    columns: dict[Key, int] = {}
    found: list[_Slot] = []
    for step, now in enumerate(kept):
        columns = {key: column for key, column in columns.items() if key in now}
        for key in now:
            free = set(range(len(now))) - set(columns.values())
            columns.setdefault(key, min(free, default=0))
        found += [_Slot(column, key, step, step + 1, now[key]) for key, column in columns.items()]
    return _joined(found, len(kept))


def _joined(slots: Sequence[_Slot], steps: int) -> list[_Slot]:
    """One slot for each stretch of steps in which nothing changes; `end` is None where it lasts to the last step."""
    stretches: dict[tuple[int, Key, float], list[_Slot]] = {}
    for slot in slots:
        alike = stretches.setdefault((slot.column, slot.key, slot.size), [])
        if alike and alike[-1].end == slot.first:
            alike[-1] = replace(alike[-1], end=slot.end)
        else:
            alike.append(slot)
    joined = [slot for alike in stretches.values() for slot in alike]
    return [replace(slot, end=None) if slot.end == steps else slot for slot in joined]


def _totals(plan: _PipelinePixels, rank: int, x: float) -> Iterator[Shape]:
    """How many microbatches are kept, and how many bytes."""
    y = plan.y(rank) + plan.high / 2
    told = [(len(now), format_bytes(sum(now.values())) if plan.measured else "") for now in plan.kept_in(rank)]
    for (number, nbytes), first, end in runs(told):
        yield write(x, y + (-2 if nbytes else 4), f"{number} kept", SMALL, first=first, end=end)
        if nbytes:
            yield write(x, y + 11, nbytes, SMALL, first=first, end=end)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_IN_WORDS = {
    "F": "forward pass",
    "B": "backward pass",
    "I": "first half of the backward pass",
    "W": "second half of the backward pass",
}


def _tell(action: Action) -> str:
    return f"{action}, the {_IN_WORDS[action.kind]} of microbatch {action.microbatch} through stage {action.stage}"


def _step(plan: _PipelinePixels, number: int) -> SceneStep:
    last = len(plan.moments) - 1
    if number == 0:
        return SceneStep("start", f"Nothing is done yet. To come: {count(sum(map(len, plan.timing.spans)), 'action')}.")
    when = format_seconds(plan.moments[number] - plan.moments[0])
    ended = [
        (rank, span)
        for rank, spans in enumerate(plan.timing.spans)
        for span in spans
        if plan.step_of(span.end) == number
    ]
    numbers = [len(plan.kept_in(rank)[number]) for rank in range(len(plan.timing.spans))]
    words = ", ".join(f"{span.action} on rank {rank}" for rank, span in ended)
    kept = ", ".join(map(format_number, numbers))
    details = [f"rank {rank}: {_tell(span.action)}, {_seconds(plan, span)}" for rank, span in ended]
    return SceneStep(f"moment {number} of {last}", f"After {when}: done {words}. Kept, by rank: {kept}.", details)
