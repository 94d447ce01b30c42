"""Which device, or rank, holds which piece of which array: a row for each way of cutting, a column for each array.

                    W1              b1              images
data parallel    ┌───────┐       ┌───────┐       ┌───────┐
                 │ 0–3   │       │  0–3  │       ├───0───┤    empty: each of the devices has a copy
                 │       │       └───────┘       ├───1───┤    a color: one device alone has this piece
                 └───────┘                       └───…───┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from distlib.draw.picture import Picture, add_canvas, add_titles, fitting_size, new_figure, text_width
from distlib.draw.style import BODY, INK, SMALL, WIDTH, color_of, drawing_style, format_bytes, points, text_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEFT, _TOP, _HEADING, _GAP = 170.0, 56.0, 44.0, 30.0  # CSS pixels: row names, titles, column names, between rows
_LARGEST, _SMALLEST = 112.0, 18.0  # CSS pixels: the sides of an array

Box = tuple[tuple[int, int], tuple[int, int]]
"""A piece: first row and the one after its last, and the same of columns."""


@dataclass(frozen=True)
class HeldPieces:
    """An array of which each rank holds a piece, in the form that `placements` draws.

    Attributes:
        shape: of the whole array.
        by_rank: for each rank, the piece it holds: a slice for each dimension.
        itemsize: bytes of an element.
    """

    shape: tuple[int, ...]
    by_rank: Sequence[tuple[slice, ...]]
    itemsize: int = 8

    @property
    def addressable_shards(self) -> list[Any]:
        """The pieces, under JAX's names."""
        return [self._shard(rank, piece) for rank, piece in enumerate(self.by_rank)]

    def _shard(self, rank: int, piece: tuple[slice, ...]) -> Any:
        sizes = (len(range(length)[part]) for part, length in zip(piece, self.shape, strict=True))
        data = SimpleNamespace(nbytes=prod(sizes) * self.itemsize)
        return SimpleNamespace(index=piece, device=SimpleNamespace(id=rank), data=data)


def placements(ways: Mapping[str, Mapping[str, Any]], *, title: str, holder: str = "device") -> Picture:
    """Draw which device holds which piece, and below the name of each way how many bytes the first device holds.

    Args:
        ways: name of a way → name of an array → the array, of 1 or 2 dimensions, as JAX has it: with `shape`, and
            `addressable_shards`, of which each has an `index` (slices) and a `device` with an `id`. All ways have the
            same arrays, of the same shapes. At most 6 arrays.
        title: the headline.
        holder: what holds the pieces, in the words of the picture: "device" or "rank".

    Raises:
        ValueError: there is nothing to draw, too much, or the ways have different arrays.
    """
    first = next(iter(ways.values()), {})
    shapes = {name: tuple(array.shape) for name, array in first.items()}
    for name, arrays in ways.items():
        found = {each: tuple(array.shape) for each, array in arrays.items()}
        if found != shapes:
            raise ValueError(f"expected the same arrays in all ways, {shapes}, got {found} for {name!r}")
    if not 1 <= len(shapes) <= 6 or not all(1 <= len(shape) <= 2 for shape in shapes.values()):
        raise ValueError(f"expected 1 to 6 arrays of 1 or 2 dimensions, got {shapes}")
    told = {name: _memory(arrays, holder) for name, arrays in ways.items()}
    with drawing_style():
        return _draw(ways, shapes, title, told, holder)


def pieces(array: Any) -> dict[Box, list[int]]:
    """The pieces of an array, each with the devices that hold it."""
    found: dict[Box, list[int]] = {}
    for shard in array.addressable_shards:
        ranges = [part.indices(length)[:2] for part, length in zip(shard.index, array.shape, strict=True)]
        rows, columns = ranges if len(ranges) == 2 else ((0, 1), ranges[0])
        found.setdefault((rows, columns), []).append(shard.device.id)
    return {box: sorted(devices) for box, devices in sorted(found.items())}


def _memory(arrays: Mapping[str, Any], holder: str) -> str:
    """How much the first device holds."""
    first = min(shard.device.id for array in arrays.values() for shard in array.addressable_shards)
    held = [shard for array in arrays.values() for shard in array.addressable_shards if shard.device.id == first]
    return f"{holder} {first}: {format_bytes(sum(shard.data.nbytes for shard in held))}"


def _draw(
    ways: Mapping[str, Mapping[str, Any]],
    shapes: Mapping[str, tuple[int, ...]],
    title: str,
    told: Mapping[str, str],
    holder: str,
) -> Picture:
    longest = max(max(shape) for shape in shapes.values())
    height = max(_size(shape, longest)[1] for shape in shapes.values())
    step, column = height + _GAP, (WIDTH - _LEFT - 10) / len(shapes)
    figure = new_figure(WIDTH, _TOP + _HEADING + step * len(ways))
    add_titles(
        figure,
        title,
        f"colored: only the {holder} with this number holds the piece; "
        f"not colored: each of these {holder}s holds a copy",
    )
    canvas = add_canvas(figure)
    for number, (name, shape) in enumerate(shapes.items()):
        middle = _LEFT + (number + 0.5) * column
        size = points(fitting_size(name, BODY, column - 8))
        canvas.text(middle, _TOP + 14, name, size=size, weight="bold", color=INK, ha="center")
        canvas.text(middle, _TOP + 30, _times(shape), size=points(SMALL), color=INK, ha="center")
        across, down = _size(shape, longest)
        across = min(max(across, *(_room_of_words(arrays[name]) for arrays in ways.values())), column - 8)
        for row, arrays in enumerate(ways.values()):
            top = _TOP + _HEADING + row * step + (height - down) / 2
            _draw_array(canvas, arrays[name], middle - across / 2, top, across, down)
    for row, way in enumerate(ways):
        middle = _TOP + _HEADING + row * step + height / 2
        size = points(fitting_size(way, BODY, _LEFT - 20))
        canvas.text(10, middle - 4, way, size=size, weight="bold", color=INK)
        canvas.text(10, middle + 16, told[way], size=points(fitting_size(told[way], SMALL + 1, _LEFT - 20)), color=INK)
    return Picture(figure, _alt(ways, title, told, holder))


def _size(shape: Sequence[int], longest: int) -> tuple[float, float]:
    """Width and height of an array in CSS pixels: the longer, the larger, but not in proportion."""
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    width, height = (max(_SMALLEST, _LARGEST * (length / longest) ** 0.5) for length in (columns, rows))
    return width, height


def _room_of_words(array: Any) -> float:
    """How wide an array must be for the numbers in its pieces, in text of SMALL; all in CSS pixels."""
    columns = array.shape[-1]
    rooms = (
        (1.15 * text_width(_devices(devices), SMALL) + 5) * columns / (xs[1] - xs[0])
        for (_, xs), devices in pieces(array).items()
        if xs[1] > xs[0]
    )
    return max(rooms, default=0.0)


def _draw_array(canvas: Axes, array: Any, left: float, top: float, across: float, down: float) -> None:
    from matplotlib.patches import Rectangle

    rows, columns = array.shape if len(array.shape) == 2 else (1, array.shape[0])
    for (ys, xs), devices in pieces(array).items():
        x, y = left + across * xs[0] / columns, top + down * ys[0] / rows
        width, height = across * (xs[1] - xs[0]) / columns, down * (ys[1] - ys[0]) / rows
        color, words = "none" if len(devices) > 1 else color_of(devices[0]), _devices(devices)
        canvas.add_patch(Rectangle((x, y), width, height, facecolor=color, edgecolor=INK, linewidth=points(1)))
        size = min(fitting_size(words, BODY, width - 4), 0.9 * height)
        canvas.text(
            x + width / 2,
            y + height / 2,
            words,
            size=points(size),
            ha="center",
            va="center_baseline",
            color=INK if color == "none" else text_on(color),
        )


def _devices(devices: Sequence[int]) -> str:
    if len(devices) > 2 and list(devices) == list(range(devices[0], devices[-1] + 1)):
        return f"{devices[0]}–{devices[-1]}"
    return ", ".join(map(str, devices))


def _times(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _alt(ways: Mapping[str, Mapping[str, Any]], title: str, told: Mapping[str, str], holder: str) -> str:
    """The picture in words, as alternative text."""
    rows = []
    for way, arrays in ways.items():
        parts = [f"{name} {_tell(array, holder)}" for name, array in arrays.items()]
        rows.append(f"{way} ({told[way]}): {'; '.join(parts)}")
    return f"{title}. {'. '.join(rows)}."


def _tell(array: Any, holder: str) -> str:
    found = pieces(array)
    if len(found) == 1:
        return f"whole on {_on(next(iter(found.values())), holder)}"
    shape = {(ys[1] - ys[0], xs[1] - xs[0]) for ys, xs in found}
    sizes = " or ".join(_times(size if len(array.shape) == 2 else size[1:]) for size in sorted(shape))
    return f"in {len(found)} pieces of {sizes}, on {', then '.join(_on(devices, holder) for devices in found.values())}"


def _on(devices: Sequence[int], holder: str) -> str:
    return f"{holder}{'s' * (len(devices) > 1)} {_devices(devices)}"
