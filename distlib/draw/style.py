"""Colors, sizes and units of all pictures, in one place.

A picture is drawn once, with text and axes in INK on nothing, and shown on white paper or, with DARK_INK in place of
INK, on near-black paper, as the theme of JupyterLab has it (see `light_and_dark`). Areas are filled with the colors of
Okabe and Ito ("Color Universal Design", 2008), which people with any color vision can tell apart, and which stand out
from both papers; and no picture says anything by color alone: ranks have numbers, kinds of areas have a hatching.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

INK, DARK_INK = "#222222", "#DDDDDD"
"""Text, axes, outlines: on light paper and on dark."""

LIGHT_PAPER, DARK_PAPER = "#FFFFFF", "#111111"

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, GRAY = "#E69F00", "#56B4E9", "#F0E442", "#999999"

DARK_YELLOW = "#B0A300"

_AS_LINES = {ORANGE: "#C48700", SKY: "#4A9BC8", YELLOW: "#8F8A00", GRAY: "#8A8A8A"}
"""Of a line nothing is seen but its color: these are dark enough for white paper, and light enough for dark paper."""

COLORS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW, GRAY)
"""In the order in which ranks get them. The first four stand out from both papers by 3:1 or more."""

TITLE, BODY, SMALL = 15.0, 12.5, 11.0
"""Sizes of text, in CSS pixels."""

PIXELS_PER_INCH = 100
"""A figure of 9 inches is shown 900 CSS pixels wide."""

WIDTH = 900
"""Pictures are at most this wide, in CSS pixels: the width of a notebook's output on a small laptop."""

NARROW = 460
"""The narrow form of a game's picture, in CSS pixels: next to sliders on a screen of 1280 × 720 at 150 %."""

NARROWEST = 740
"""Pictures are at least this wide, in CSS pixels: then their smallest text is 9 pixels high. Less room is scrolled."""


def color_of(index: int) -> str:
    """The color of rank (or round, …) `index`. There are 8; then they repeat."""
    return COLORS[index % len(COLORS)]


def line_color_of(index: int) -> str:
    """As `color_of`, for lines, which stand out from both papers by 3:1 or more."""
    return _AS_LINES.get(color_of(index), color_of(index))


def points(pixels: float) -> float:
    """CSS pixels as typographic points, in which matplotlib gives the sizes of text and lines."""
    return pixels * 72 / PIXELS_PER_INCH


def luminance(color: str) -> float:
    """The relative luminance of "#RRGGBB", from 0 (black) to 1 (white), as WCAG 2.2 defines it."""
    channels = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colors, from 1 (equal) to 21 (black on white), as WCAG 2.2 defines it."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def text_on(color: str) -> str:
    """Black or white: what is easier to read on an area of `color`."""
    return max(("#000000", "#FFFFFF"), key=lambda text: contrast(text, color))


BYTE_UNITS: Mapping[str, float] = {
    "B": 1,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
"""Bytes in each unit."""

TIME_UNITS: Mapping[str, float] = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600}
"""Seconds in each unit."""


def format_number(value: float) -> str:
    """A number as a person writes it: 12, 1,000,000, 0.75, 1.333, 1,610.6. Four digits or more."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def format_bytes(nbytes: float) -> str:
    """A number of bytes with its unit: "768 B", "1.5 KiB", "16 MiB"."""
    unit, factor = _largest_unit(nbytes, ("B", "KiB", "MiB", "GiB", "TiB"), BYTE_UNITS)
    return f"{format_number(float(f'{nbytes / factor:.4g}'))} {unit}"


def format_decimal_bytes(nbytes: float) -> str:
    """The same in powers of ten, as memory is counted in lessons: "1.5 kB", "16 MB", "80 GB"."""
    unit, factor = _largest_unit(nbytes, ("B", "kB", "MB", "GB", "TB"), BYTE_UNITS)
    return f"{format_number(float(f'{nbytes / factor:.4g}'))} {unit}"


def format_gigabytes(nbytes: float) -> str:
    """Always in GB, to three digits, as the games compare it with the memory of a device: "0.5 GB", "80 GB"."""
    return f"{nbytes / 1e9:.3g} GB"


def format_seconds(seconds: float) -> str:
    """A duration with its unit: "250 µs", "1.5 ms", "2 s"."""
    unit, factor = time_unit(seconds)
    return f"{format_number(float(f'{seconds / factor:.3g}'))} {unit}"


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit that suits a duration, and its seconds: ("ms", 0.001) for 0.02."""
    return _largest_unit(seconds, ("ns", "µs", "ms", "s"), TIME_UNITS)


def count(number: int, noun: str) -> str:
    """A number and its noun: "1 message", "12 messages"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _largest_unit(value: float, names: tuple[str, ...], factors: Mapping[str, float]) -> tuple[str, float]:
    fitting = [name for name in names if abs(value) >= factors[name]]
    name = fitting[-1] if fitting else names[0]
    return name, factors[name]


@contextmanager
def drawing_style() -> Iterator[None]:
    """Within the block matplotlib draws in our style, whatever the notebook has set; after it all is as before."""
    import matplotlib

    ours: dict[str, Any] = {
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
        "font.size": points(BODY),
        "font.family": ["DejaVu Sans"],
        "figure.dpi": PIXELS_PER_INCH,
        "text.parse_math": False,
        "svg.hashsalt": "distlib",
    }
    untouched = ("backend", "interactive", "toolbar")
    defaults: dict[str, Any] = {
        key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith(untouched)
    }
    settings: Any = defaults | ours
    with matplotlib.rc_context(settings):
        yield
