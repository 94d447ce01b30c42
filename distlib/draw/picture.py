"""`Picture`: what every draw function returns. A matplotlib figure that shows itself in a notebook, with alt text.

It is shown as an <img> with the pixels inside: that survives JupyterLab's cleaning of untrusted notebooks, nbconvert,
and nbgrader's feedback, where inline SVG does not; and it carries alt text, which a bare image output cannot. There is
one on light paper and one on dark (see `light_and_dark`), made from the same drawing.
"""

from __future__ import annotations

import base64
import functools
import io
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distlib.draw.light_and_dark import on_both_papers
from distlib.draw.style import (
    DARK_INK,
    DARK_PAPER,
    INK,
    LIGHT_PAPER,
    PIXELS_PER_INCH,
    SMALL,
    TITLE,
    drawing_style,
    points,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image


class Picture:
    """A finished figure. As the last line of a cell it shows itself; elsewhere use `display(picture)`.

    Attributes:
        figure: the matplotlib Figure. It belongs to no window and no backend; pyplot does not know it.
        alt: what the picture shows, in words, computed from the same data.
    """

    def __init__(self, figure: Figure, alt: str) -> None:
        self.figure = figure
        self.alt = alt

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file whose ending says the format: .png, .svg or .pdf. Returns the path.

        Raises:
            ValueError: the ending is another.
            OSError: the file can't be written.
        """
        path = Path(path)
        kind = path.suffix.lower()
        if kind not in (".png", ".svg", ".pdf"):
            raise ValueError(f"expected a file name that ends in .png, .svg or .pdf, got {str(path)!r}")
        path.write_bytes(self._render(kind[1:]))
        return path

    def _render(self, kind: str) -> bytes:
        buffer = io.BytesIO()
        with drawing_style():
            self.figure.savefig(buffer, format=kind, dpi=2 * PIXELS_PER_INCH, transparent=True)
        return buffer.getvalue()

    def _repr_png_(self) -> bytes:
        """The pixels on light paper."""
        return self._on_paper(self._pixels(), LIGHT_PAPER, INK)

    def _pixels(self) -> Image.Image:
        from PIL import Image

        return Image.open(io.BytesIO(self._render("png"))).convert("RGBA")

    def _on_paper(self, pixels: Image.Image, paper: str, ink: str) -> bytes:
        """A PNG: ink of this color in place of INK, on paper, with 256 colors: no difference to be seen, and small."""
        import numpy
        from PIL import Image, ImageColor

        colors = numpy.array(pixels)
        drawn = ImageColor.getrgb(INK)
        # A translucent pixel of ink is off by rounding; an opaque one that is off is the rim of a black letter on pink
        room = numpy.where(colors[..., 3] == 255, 2, 16)
        is_ink = numpy.abs(colors[..., :3].astype(numpy.int16) - numpy.array(drawn, numpy.int16)).max(axis=-1) <= room
        colors[is_ink, :3] = ImageColor.getrgb(ink)
        whole = Image.alpha_composite(Image.new("RGBA", pixels.size, paper), Image.fromarray(colors))
        few = whole.quantize(256, method=Image.Quantize.FASTOCTREE)
        colors_left = few.getpalette("RGB") or []
        corner = 3 * int(few.getpixel((0, 0)))  # type: ignore[arg-type]
        colors_left[corner : corner + 3] = ImageColor.getrgb(paper)  # not nearly, else the edges of the paper are seen
        few.putpalette(colors_left, "RGB")
        buffer = io.BytesIO()
        few.save(buffer, "PNG", optimize=True)
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        pixels = self._pixels()
        return self._html(self._on_paper(pixels, LIGHT_PAPER, INK), self._on_paper(pixels, DARK_PAPER, DARK_INK))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        pixels = self._pixels()
        light, dark = self._on_paper(pixels, LIGHT_PAPER, INK), self._on_paper(pixels, DARK_PAPER, DARK_INK)
        return {
            "text/plain": self.alt,
            "image/png": base64.b64encode(light).decode("ascii"),
            "text/html": self._html(light, dark),
        }

    def _html(self, light: bytes, dark: bytes) -> str:
        width = round(self.figure.get_figwidth() * PIXELS_PER_INCH)
        return on_both_papers(light, dark, "image/png", self.alt, width)

    def __repr__(self) -> str:
        return f"<Picture: {self.alt}>"


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of `width` × `height` CSS pixels that no pyplot knows. Use within `drawing_style`."""
    from matplotlib.figure import Figure

    size = (width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
    return Figure(figsize=size, dpi=PIXELS_PER_INCH, facecolor="none")


def add_axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes in `figure`, placed in CSS pixels from its top left corner; transparent, with a left and a bottom line."""
    total_width, total_height = (inches * PIXELS_PER_INCH for inches in figure.get_size_inches())
    bottom = total_height - top - height
    axes = figure.add_axes(
        (left / total_width, bottom / total_height, width / total_width, height / total_height), facecolor="none"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=points(SMALL))
    return axes


def add_canvas(figure: Figure) -> Axes:
    """Axes over the whole figure whose unit is the CSS pixel, from the top left corner; nothing of them is seen."""
    width, height = (inches * PIXELS_PER_INCH for inches in figure.get_size_inches())
    axes = figure.add_axes((0, 0, 1, 1), facecolor="none")
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return axes


def label_end(axes: Axes, words: str, end: float, row: float, gap: float = 5, **look: Any) -> None:
    """Words behind the end of a bar.

    Args:
        end, row: where the bar ends.
        gap: between the two, in CSS pixels.
        look: of the words, where it is not the usual one; as matplotlib's `annotate` takes it.
    """
    usual = {"size": points(SMALL), "color": INK, "va": "center_baseline"}
    axes.annotate(words, (end, row), xytext=(points(gap), 0), textcoords="offset points", **{**usual, **look})


def add_titles(figure: Figure, title: str, subtitle: str, left: float = 10, title_room: float = 1e9) -> None:
    """The title and the line below it, at the top left, smaller if they are long. They take the first 50 CSS pixels.

    title_room: CSS pixels that the title may take at most, where something stands right of it.
    """
    width, height = (inches * PIXELS_PER_INCH for inches in figure.get_size_inches())
    room = width - 2 * left
    size = fitting_size(title, TITLE, min(room, title_room))
    figure.text(left / width, 1 - 20 / height, title, size=points(size), weight="bold", color=INK, va="baseline")
    size = fitting_size(subtitle, SMALL + 1, room)
    figure.text(left / width, 1 - 40 / height, subtitle, size=points(size), color=INK, va="baseline")


def fitting_size(words: str, size: float, room: float) -> float:
    """The size of text, at most `size`, at which `words` take no more than `room`; all in CSS pixels."""
    bold = 1.15 * text_width(words, size)
    return size if bold <= room else size * room / bold


def wrap_words(words: str, size: float, room: float) -> list[str]:
    """As few lines as `words` need to take no more than `room` each, as equal as they can be; all in CSS pixels.

    A word that is longer than `room` has a line to itself. `fitting_size` of each line is `size`, but for such a word.
    """
    parts = words.split(" ")
    for breaks in range(len(parts)):
        best = min((_lines(parts, at) for at in combinations(range(1, len(parts)), breaks)), key=_longest)
        if all(fitting_size(line, size, room) == size for line in best):
            return best
    return parts


def _lines(parts: Sequence[str], breaks: Sequence[int]) -> list[str]:
    return [" ".join(parts[start:end]) for start, end in pairwise([0, *breaks, len(parts)])]


def _longest(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def key_of_areas(canvas: Axes, looks: Mapping[str, Mapping[str, Any]], top: float = 10) -> None:
    """What areas mean, at the right of a picture. `looks`: words to properties, from left to right."""
    from matplotlib.patches import Rectangle

    x = canvas.get_xlim()[1] - 20
    for words, look in reversed(list(looks.items())):
        x -= key_text(canvas, x, top + 10, words)
        canvas.add_patch(Rectangle((x - 32, top), 24, 11, linewidth=points(1), **look))
        x -= 48


def key_text(canvas: Axes, right: float, baseline: float, words: str) -> float:
    """Write `words` so that they end at `right`; returns their width in CSS pixels, for what stands left of them."""
    canvas.text(right, baseline, words, size=points(SMALL + 1), color=INK, ha="right", va="baseline")
    return text_width(words, SMALL + 1)


def text_width(words: str, size: float) -> float:
    """How wide `words` are in a font of `size`, both in CSS pixels. Use within `drawing_style`."""
    return size * _width_at_size_1(words) if words else 0.0


@functools.lru_cache(10_000)
def _width_at_size_1(words: str) -> float:
    """A glyph's outline scales with the font size, so one size is enough. The same words are measured many times."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), words, size=1).get_extents().width)
