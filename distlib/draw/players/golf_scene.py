"""The scene of a swing of memory golf: what is alive in the course of the step, under the limit, and its time with par.

      │        ▄▄▄▄ activations     From left to right changes follow one another. Where there are more than columns,
limit ├─ ─ ─ ─ ─ ─ ─                a column shows the fullest of its moments.
      │▒▒▒▒▒▒▒▒▒▒▒▒ states
      └ forward │ backward
time   ▓▓▓▓▓▓▓▓▓│par
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from distlib.draw.players.scene import INK, Scene, SceneStep, Shape, box, runs, write
from distlib.draw.style import BODY, COLORS, GRAY, NARROW, SMALL, TITLE, WIDTH, format_gigabytes, text_on
from distlib.training.par_points import in_words
from distlib.training.zero.live_bytes import KINDS, Sample
from distlib.training.zero.memory_golf import Hole, StepChoice, Swing

_COLUMNS = 120
_KEY_ROW = 22.0  # CSS pixels
_BAR = 22.0  # CSS pixels: the height of the bar of time


@dataclass(frozen=True)
class _Frame:
    """Where the curve is, in CSS pixels."""

    width: float
    left: float
    right: float
    top: float
    high: float
    pixels: float  # per byte

    @property
    def base(self) -> float:
        return self.top + self.high

    def at(self, nbytes: float) -> float:
        """The height of a number of bytes."""
        return round(self.base - nbytes * self.pixels, 1)


def golf_scene(swing: Swing, width: int = WIDTH) -> Scene:
    """The scene of a swing. A narrow one, of NARROW pixels, stands next to sliders, which say what was chosen."""
    is_wide = width > NARROW
    title = f"Hole {swing.hole.number}, {swing.hole.name}: {verdict(swing)}"
    kinds = [kind for kind in KINDS if any(sample.bytes[kind] for sample in swing.samples)]
    top, high, right = (66.0, 190.0, width - 172.0) if is_wide else (40.0, 120.0, width - 8.0)
    frame = _Frame(width, 80.0, right, top, high, high / (1.04 * max(swing.peak.total, swing.hole.limit)))
    key, below = (_key_at_right(kinds, frame), frame.base) if is_wide else _key_below(kinds, frame)
    bar = below + 36
    shapes = [
        write(6, 20, title, TITLE, bold=True),
        *([write(6, 42, choice_in_words(swing.choice), BODY)] if is_wide else []),
        *_areas(swing.samples, kinds, frame),
        *_phases(swing.samples, frame),
        *key,
        *_limit(swing.hole, frame),
        *_time(swing, frame, bar),
    ]
    words = f"{title}. {choice_in_words(swing.choice)}. {_in_words(swing)}"
    step = SceneStep("", _in_words(swing), _peak_in_words(swing))
    return Scene(title, width, bar + _BAR + 26, shapes, [step], words, "an area or a bar")


def refused_swing(hole: Hole, why: str, width: int = WIDTH) -> Scene:
    """The scene of a choice that the hole does not allow, with the reason as a warning."""
    title = f"Hole {hole.number}, {hole.name}: this can't be played"
    shapes, step = [write(6, 20, title, TITLE, bold=True)], SceneStep("", f"{title}.", warning=why)
    return Scene(title, width, 40, shapes, [step], f"{title}: {why}", "a slider")


def verdict(swing: Swing) -> str:
    """ "9 points", "2.31 GB too many"."""
    if swing.missing > 0:
        return f"{format_gigabytes(swing.missing)} too many"
    return in_words(swing.points)


def choice_in_words(choice: StepChoice) -> str:
    """ "stage 3, blocks per unit: 1, checkpointed: 9, microbatches: 2, prefetch, reshard"."""
    flags = [name for name in ("prefetch", "reshard") if choice.stage == 3 and getattr(choice, name)]
    numbers = [
        f"blocks per unit: {choice.blocks_per_unit}",
        f"checkpointed: {choice.checkpointed}",
        f"microbatches: {choice.microbatches}",
    ]
    return ", ".join([f"stage {choice.stage}", *numbers, *flags])


# ── the curve ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _columns(samples: Sequence[Sample]) -> list[Mapping[str, int]]:
    number = min(_COLUMNS, len(samples))
    bounds = [len(samples) * column // number for column in range(number + 1)]
    parts = (samples[bounds[column] : bounds[column + 1]] for column in range(number))
    return [max(part, key=lambda sample: sample.total).bytes for part in parts]


def _areas(samples: Sequence[Sample], kinds: Sequence[str], frame: _Frame) -> Iterator[Shape]:
    columns = _columns(samples)
    floor = [0.0] * len(columns)
    for kind in kinds:
        roof = [low + column[kind] for low, column in zip(floor, columns, strict=True)]
        there, back = _corners(roof, frame), _corners(floor, frame)[::-1]
        path = "M" + "L".join(f"{x} {y}" for x, y in [*there, *back]) + "Z"
        most = max(sample.bytes[kind] for sample in samples)
        yield Shape("path", {"d": path, "fill": _color(kind)}, tip=f"{kind}: at most {format_gigabytes(most)}")
        floor = roof


def _corners(heights: Sequence[float], frame: _Frame) -> list[tuple[float, float]]:
    """The corners of a curve of steps, from left to right."""
    width = (frame.right - frame.left) / len(heights)
    found = list[tuple[float, float]]()
    for height, first, end in runs(heights):
        found += [(round(frame.left + x * width, 1), frame.at(height)) for x in (first, end or len(heights))]
    return found


def _phases(samples: Sequence[Sample], frame: _Frame) -> Iterator[Shape]:
    """The names of the passes below the curve; of many microbatches, that they alternate."""
    stretches = [(phase, len(list(group))) for phase, group in groupby(samples, key=lambda sample: sample.phase)]
    y = frame.base + 16
    if len(stretches) > 2:
        middle = (frame.left + frame.right) / 2
        yield write(middle, y, f"forward and backward, {len(stretches) // 2} times", SMALL, anchor="middle")
        return
    start = frame.left
    for phase, number in stretches:
        width = number / len(samples) * (frame.right - frame.left)
        yield write(start + width / 2, y, phase, SMALL, anchor="middle")
        start += width
        if start < frame.right - 1:
            yield Shape("path", _line(f"M{round(start, 1)} {frame.base} v6"))


def _key_at_right(kinds: Sequence[str], frame: _Frame) -> list[Shape]:
    """What each color is, in the order in which they are stacked."""
    found = list[Shape]()
    for row, kind in enumerate(reversed(kinds)):
        found += _key_entry(frame.right + 14, frame.top + 30 + _KEY_ROW * row, kind)
    return found


def _key_below(kinds: Sequence[str], frame: _Frame) -> tuple[list[Shape], float]:
    """The key below the curve, in rows, and where it ends."""
    found, x, y = list[Shape](), 6.0, frame.base + 40
    for kind in kinds:
        if x + _key_width(kind) > frame.width:
            x, y = 6.0, y + _KEY_ROW
        found += _key_entry(x, y, kind)
        x += _key_width(kind) + 6
    return found, y - 18


def _key_width(kind: str) -> float:
    return 7.0 * len(kind) + 12


def _key_entry(x: float, y: float, kind: str) -> list[Shape]:
    swatch = box(x, y - 13, _key_width(kind), 19, {"fill": _color(kind)})
    return [swatch, write(x + 6, y, kind, SMALL, fill=text_on(_color(kind)))]


def _color(kind: str) -> str:
    """The same in every picture, whatever else is alive."""
    return COLORS[KINDS.index(kind)]


def _limit(hole: Hole, frame: _Frame) -> Iterator[Shape]:
    y, base = frame.at(hole.limit), frame.base
    yield Shape("path", _line(f"M{frame.left} {y} H{frame.right}") | {"stroke-dasharray": "6 4", "stroke-width": 2})
    yield write(frame.left - 6, y - 3, "limit", SMALL, anchor="end")
    yield write(frame.left - 6, y + 11, format_gigabytes(hole.limit), SMALL, anchor="end")
    yield Shape("path", _line(f"M{frame.left} {frame.top} V{base} H{frame.right}"))
    if base - y > 26:
        yield write(frame.left - 6, base + 4, "0 GB", SMALL, anchor="end")


def _line(path: str) -> dict[str, str | float]:
    return {"d": path, "fill": "none", "stroke": INK}


# ── the time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _time(swing: Swing, frame: _Frame, top: float) -> Iterator[Shape]:
    """How long the ranks compute, and how long they wait, and par. Of a far longer time only the start is drawn."""
    par, seconds = swing.hole.par_seconds, swing.seconds
    end = frame.right - 6
    pixels = (end - frame.left) / max(min(seconds, 3 * par), par)
    drawn = min(seconds * pixels, end - frame.left)
    computing = min(swing.computing * pixels, drawn)
    yield write(6, top + 15, "time", BODY, bold=True)
    look: dict[str, str | float] = {"stroke": INK, "stroke-width": 1}
    yield box(frame.left, top, computing, _BAR, look | {"fill": COLORS[0]}, tip=f"computing: {_ms(swing.computing)}")
    if drawn > computing:
        left, waits = frame.left + computing, f"waiting for messages: {_ms(seconds - swing.computing)}"
        yield box(left, top, drawn - computing, _BAR, look | {"fill": f"hatch:{GRAY}"}, tip=waits)
    mark = frame.left + par * pixels
    yield box(mark - 1, top - 4, 2, _BAR + 8, {"fill": INK})
    yield write(frame.left, top + _BAR + 17, f"{_ms(seconds)}", SMALL, bold=True)
    near_end = mark > frame.right - 60
    yield write(
        frame.right if near_end else mark,
        top + _BAR + 17,
        f"par {_ms(par)}",
        SMALL,
        anchor="end" if near_end else "middle",
    )


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _in_words(swing: Swing) -> str:
    hole, peak = swing.hole, swing.peak
    fits = f"{format_gigabytes(swing.missing)} too many, so this gives no points" if swing.missing > 0 else "it fits"
    highest = max(peak.bytes, key=lambda kind: peak.bytes[kind])
    return (
        f"At most {peak.total / 1e9:.2f} of {hole.limit / 1e9:g} GB are alive, in the {peak.phase} pass: {fits}. "
        f"Most of them are {highest}, {format_gigabytes(peak.bytes[highest])}. A step takes {_ms(swing.seconds)}, par "
        f"{_ms(hole.par_seconds)}; ranks compute for {swing.computing / swing.seconds:.0%} of it."
    )


def _peak_in_words(swing: Swing) -> list[str]:
    return [f"At the peak, {kind}: {format_gigabytes(nbytes)}" for kind, nbytes in swing.peak.bytes.items() if nbytes]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.0f} ms"
