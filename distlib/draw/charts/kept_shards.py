"""Who keeps which shard of what: a panel for each strategy, in it a column for each rank.

        DDP                  stage 1
    ┌─┐ ┌─┐ ┌─┐ ┌─┐       ┌─┐ ┌─┐ ┌─┐ ┌─┐
    │█│ │█│ │█│ │█│       │█│ │█│ │█│ │█│   weights
    │█│ │█│ │█│ │█│       │█│ │█│ │█│ │█│   gradients
    │▒│ │▒│ │▒│ │▒│       │▒│ │ │ │ │ │ │   optimizer states: rank 0 has the first shard,
    │▒│ │▒│ │▒│ │▒│       │ │ │▒│ │ │ │ │     rank 1 the second, …
     0   1   2   3         0   1   2   3

A column is as high as all that training keeps; filled is what this rank keeps of it. S. Rajbhandari et al., "ZeRO",
SC 2020, figure 1 is drawn in a similar way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from distlib.draw.picture import Picture, add_canvas, add_titles, key_of_areas, new_figure
from distlib.draw.style import BLUE, BODY, GREEN, INK, SKY, SMALL, WIDTH, drawing_style, format_bytes, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLORS = (BLUE, SKY, GREEN)
_TOP, _HEAD, _HIGH, _FOOT = 60.0, 28.0, 200.0, 48.0  # CSS pixels: titles, a panel's name, a column, ranks and bytes
_GAP = 22.0  # CSS pixels, between panels
_MOST_PANELS, _MOST_RANKS = 4, 8


def kept_shards(
    panels: Mapping[str, Mapping[str, float]],
    ranks: int,
    *,
    title: str,
    subtitle: str = "a column is all that training keeps; filled is what this rank keeps",
    show: Callable[[float], str] = format_bytes,
) -> Picture:
    """Draw which shard of which kind of bytes each rank keeps.

    Args:
        panels: name of a strategy → kind → the bytes of it that each rank keeps. In the first panel nothing is sharded;
            in the others a kind is whole, or each rank keeps one shard of it, in the order of the ranks. At most 4
            panels and 3 kinds, the same in all panels.
        ranks: 2 to 8.
        title, subtitle: the headline and the line below it.
        show: bytes per rank in words.

    Raises:
        ValueError: other numbers of panels, kinds or ranks, or a kind that is neither whole nor an equal shard.
    """
    kinds = list(next(iter(panels.values()), {}))
    if not (1 <= len(panels) <= _MOST_PANELS and 1 <= len(kinds) <= len(_COLORS) and 2 <= ranks <= _MOST_RANKS):
        raise ValueError(
            f"expected 1 to {_MOST_PANELS} panels of 1 to {len(_COLORS)} kinds, and 2 to {_MOST_RANKS} ranks, got "
            f"{len(panels)} panels of {len(kinds)} kinds, and {ranks} ranks"
        )
    whole = next(iter(panels.values()))
    for name, kept in panels.items():
        if list(kept) != kinds:
            raise ValueError(f"expected {', '.join(kinds)} in each panel, got {', '.join(kept)} in {name!r}")
        for kind, nbytes in kept.items():
            if not any(abs(nbytes - share) <= 1e-6 * whole[kind] for share in (whole[kind], whole[kind] / ranks)):
                raise ValueError(f"{name}, {kind}: expected {whole[kind]} or 1/{ranks} of it, got {nbytes}")
    with drawing_style():
        return _draw(panels, ranks, title, subtitle, show)


def _draw(
    panels: Mapping[str, Mapping[str, float]], ranks: int, title: str, subtitle: str, show: Callable[[float], str]
) -> Picture:
    figure = new_figure(WIDTH, _TOP + _HEAD + _HIGH + _FOOT)
    add_titles(figure, title, subtitle, title_room=430)
    canvas = add_canvas(figure)
    whole = next(iter(panels.values()))
    looks = {kind: {"facecolor": color, "edgecolor": INK} for kind, color in zip(whole, _COLORS, strict=False)}
    key_of_areas(canvas, looks)
    panel = (WIDTH - 20 + _GAP) / max(2, len(panels))
    told = []
    for place, (name, kept) in enumerate(panels.items()):
        left, width = 10 + place * panel, panel - _GAP
        canvas.text(left, _TOP + 14, name, size=points(BODY + 1), weight="bold", color=INK, va="center_baseline")
        column = min(40.0, width / ranks)
        for rank in range(ranks):
            _draw_column(canvas, left + rank * column, column - 8, rank, ranks, whole, kept)
        words = f"{show(sum(kept.values()))} on each rank"
        y = _TOP + _HEAD + _HIGH + 36
        canvas.text(left, y, words, size=points(BODY), color=INK, va="center_baseline")
        told.append(f"{name}: {words}, {_in_words(kept, whole)}.")
    return Picture(figure, " ".join([f"{title}.", *told]))


def _draw_column(
    canvas: Axes,
    left: float,
    width: float,
    rank: int,
    ranks: int,
    whole: Mapping[str, float],
    kept: Mapping[str, float],
) -> None:
    from matplotlib.patches import Rectangle

    top, scale = _TOP + _HEAD, _HIGH / sum(whole.values())
    y = top
    for (kind, nbytes), color in zip(whole.items(), _COLORS, strict=False):
        high = nbytes * scale
        is_whole = kept[kind] > 0.999 * nbytes
        first, part = (y, high) if is_whole else (y + rank * high / ranks, high / ranks)
        canvas.add_patch(Rectangle((left, first), width, part, facecolor=color, edgecolor="none"))
        canvas.add_patch(Rectangle((left, y), width, high, facecolor="none", edgecolor=INK, linewidth=points(0.8)))
        y += high
    middle, below = left + width / 2, top + _HIGH + 12
    canvas.text(middle, below, str(rank), size=points(SMALL), color=INK, ha="center", va="center_baseline")


def _in_words(kept: Mapping[str, float], whole: Mapping[str, float]) -> str:
    """ "all weights, gradients, and its own shard of the optimizer states"."""
    all_of = [kind for kind, nbytes in kept.items() if nbytes > 0.999 * whole[kind]]
    shards = [kind for kind in kept if kind not in all_of]
    parts = [f"all {', '.join(all_of)}"] if all_of else []
    parts += [f"its own shard of the {', '.join(shards)}"] if shards else []
    return ", and ".join(parts)
