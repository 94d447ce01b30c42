"""Images, and what each of several models says that they show: a column for each image, a row for each model.

              [8]  [9]  [8]
one model      8    9    8
the other      3    7   «1»       «»: wrong, with a frame around it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from distlib.draw.picture import Picture, add_axes, add_canvas, add_titles, fitting_size, new_figure
from distlib.draw.style import BODY, INK, VERMILLION, WIDTH, drawing_style, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOP, _ROW, _FOOT, _LEFT = 62.0, 34.0, 10.0, 170.0  # CSS pixels


def image_answers(
    images: Sequence[Sequence[Sequence[float]]],
    truths: Sequence[int],
    answers: Mapping[str, Sequence[int]],
    *,
    title: str,
) -> Picture:
    """Draw images, and below each what it shows by each of the models; wrong answers are framed.

    Args:
        images: each as rows of numbers, the larger the darker. At most 16.
        truths: what each image shows.
        answers: name of a model → what it says of each image.
        title: the headline.

    Raises:
        ValueError: no images or too many, no answers, or not as many of both.
    """
    lengths = {len(truths), *(len(found) for found in answers.values())}
    if not 1 <= len(images) <= 16 or not answers or lengths != {len(images)}:
        raise ValueError(
            f"expected 1 to 16 images, and a truth and an answer of each model for each of them, got {len(images)} "
            f"images, {len(truths)} truths and { ({name: len(found) for name, found in answers.items()}) } answers"
        )
    with drawing_style():
        column = (WIDTH - _LEFT - 10) / len(images)
        side = min(column - 8, 72.0)
        figure = new_figure(WIDTH, _TOP + side + 12 + _ROW * len(answers) + _FOOT)
        add_titles(figure, title, "what each model says that the image shows; framed: wrong")
        canvas = add_canvas(figure)
        for number, image in enumerate(images):
            left = _LEFT + number * column + (column - side) / 2
            _draw_image(add_axes(figure, left, _TOP, side, side), image)
        for row, (name, found) in enumerate(answers.items()):
            y = _TOP + side + 12 + (row + 0.5) * _ROW
            size = points(fitting_size(name, BODY, _LEFT - 20))
            canvas.text(12, y, name, size=size, weight="bold", color=INK, va="center_baseline")
            for number, (said, truth) in enumerate(zip(found, truths, strict=True)):
                _write_answer(canvas, _LEFT + (number + 0.5) * column, y, said, said == truth)
        return Picture(figure, _tell(truths, answers, title))


def _draw_image(axes: Axes, image: Sequence[Sequence[float]]) -> None:
    axes.pcolormesh(image, cmap="gray_r", edgecolors="face", linewidth=0)
    axes.set(xlim=(0, len(image[0])), ylim=(len(image), 0), xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(INK)


def _write_answer(canvas: Axes, x: float, y: float, said: int, is_right: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    if not is_right:
        frame = FancyBboxPatch((x - 11, y - 11), 22, 22, boxstyle="round,pad=0,rounding_size=4", facecolor="none")
        frame.set(edgecolor=VERMILLION, linewidth=points(2))
        canvas.add_patch(frame)
    canvas.text(x, y, str(said), size=points(BODY + 3), color=INK, ha="center", va="center_baseline")


def _tell(truths: Sequence[int], answers: Mapping[str, Sequence[int]], title: str) -> str:
    told = [f"{name}: {', '.join(map(str, found))}." for name, found in answers.items()]
    return " ".join([f"{title}. Images of {', '.join(map(str, truths))}.", *told])
