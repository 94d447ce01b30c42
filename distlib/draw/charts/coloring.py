"""How the arrows of a timeline are colored and numbered: by what the axis does not say, or by a label of one's own.

color_by="round"        the default over seconds: number and color of an arrow are its round
color_by="sender"       the default over rounds: number and color are the rank that sent it
color_by="tag"          the color is the tag it was sent with
color_by="tree"         of one double-tree all-reduce: the color is the tree that a message goes along
color_by=node_of        the color is the label that node_of(message) returns, such as "inside a node"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distlib.draw.style import COLORS, line_color_of
from distlib.network.two_trees import trees_by_pair
from distlib.trace import Message, Trace

ColorBy = str | Callable[[Message], Any] | Mapping[Message, Any]
NAMES = ("round", "sender", "tag", "tree")


@dataclass(frozen=True)
class Coloring:
    """The color and the number of each arrow.

    Attributes:
        number_name: what the number says: "round" or "sender".
        labels: label to color, where the color says something else than the number; else empty.
        label_of: a message's label; None where there are no labels.
    """

    number_name: str
    labels: Mapping[str, str]
    label_of: Callable[[Message], str] | None = None

    def number(self, message: Message) -> int:
        """The number that is written into an arrow's dot."""
        return message.src if self.number_name == "sender" else message.round

    def color(self, message: Message) -> str:
        """The color of an arrow, as "#RRGGBB"."""
        if self.label_of is not None:
            return self.labels[self.label_of(message)]
        return line_color_of(message.src if self.number_name == "sender" else message.round - 1)

    def key(self, numbered: bool) -> str:
        """What number and color mean, in words; "" if labels say it all."""
        shown = ["number"] * numbered + ["color"] * (not self.labels)
        return f"{' and '.join(shown)}: its {self.number_name}" if shown else ""


def coloring(trace: Trace, color_by: ColorBy | None, by: str) -> Coloring:
    """How to color the arrows of `trace`. `by`: "time" or "round", the axis of the timeline.

    Raises:
        ValueError: another word, or more labels than there are colors.
        TypeError: `color_by` is neither a word nor a function nor a mapping.
    """
    number_name = "round" if by == "time" else "sender"
    if color_by is None or color_by in ("round", "sender"):
        return Coloring(str(color_by or number_name), {})
    label_of = _in_trees(trace) if color_by == "tree" else _labeler(color_by)
    labels = sorted({label_of(message) for message in trace})
    if len(labels) > len(COLORS):
        raise ValueError(f"expected color_by with at most {len(COLORS)} labels, got {len(labels)}: {', '.join(labels)}")
    return Coloring(number_name, {label: line_color_of(index) for index, label in enumerate(labels)}, label_of)


def _in_trees(trace: Trace) -> Callable[[Message], str]:
    """The tree of each message, "tree 0" or "tree 1": the k-th from one rank to another is known from the schedule."""
    a_block = 4 * (trace.world_size - 1)  # up and down both trees
    blocks = len(trace.messages) // a_block if a_block else 0
    ahead = {pair: iter(trees) for pair, trees in trees_by_pair(trace.world_size, blocks).items()}
    found = {message: f"tree {next(ahead.get((message.src, message.dst), iter(())), '?')}" for message in trace}
    if len(found) != blocks * a_block or "tree ?" in found.values():
        raise ValueError(
            f"expected color_by='tree' with the messages of one double-tree all-reduce on {trace.world_size} ranks, "
            f"got {len(trace)} messages of another kind"
        )
    return found.__getitem__


def _labeler(color_by: ColorBy) -> Callable[[Message], str]:
    if color_by == "tag":
        return lambda message: f"tag {message.tag}"
    if isinstance(color_by, str):
        raise ValueError(f"expected color_by={', '.join(map(repr, NAMES))} or a function, got {color_by!r}")
    if isinstance(color_by, Mapping):
        return lambda message: str(color_by[message])
    if callable(color_by):
        return lambda message: str(color_by(message))
    raise TypeError(f"expected color_by as a word, a function or a dict from messages to labels, got {color_by!r}")
