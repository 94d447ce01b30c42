"""`play_cluster`: the game of `cluster_game` with sliders. Every move is played anew on simulated ranks, in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from distlib.draw.players.cluster_scene import cluster_scene, refused_scene
from distlib.draw.players.scene import Scene
from distlib.draw.players.slider import Slider
from distlib.draw.players.slider_board import SliderBoard
from distlib.draw.style import NARROW, WIDTH, count
from distlib.training.strategy.cluster_game import ClusterLevel, LaidOut, cluster_level, play_layout
from distlib.training.strategy.parallel_layout import RECOMPUTE, STAGES, ParallelLayout, layers_by_stage

ORDERS = (("dp", "pp", "tp"), ("pp", "dp", "tp"), ("tp", "dp", "pp"))
_AGAIN = {"none": "nothing", "attention": "scores", "full": "layers"}


class ClusterBoard(SliderBoard):
    """Sliders and a cluster.

    Args:
        level: which is played.
        played: called with every layout that was played, from the first move on.

    Attributes:
        level: which is played.
        sliders: name to widget: "tp", "pp", "stage", "microbatches", "recompute", "axes", and "moved": how many layers
            go from the last stage to the first. What tp and pp leave of the ranks is dp.
        attempts: what was played, in order; for `score_card`.
    """

    def __init__(self, level: ClusterLevel, played: Callable[[LaidOut], None] | None = None) -> None:
        self.level, self.attempts, self._played = level, list[LaidOut](), played
        super().__init__(_layout_sliders(level), at_left=True)

    def layout(self) -> ParallelLayout:
        """The layout at the sliders' present values.

        Raises:
            ValueError: tp and pp do not divide the ranks, or a stage would have no layer.
        """
        chosen = {name: slider.value for name, slider in self.sliders.items()}
        ranks, moved = self.level.cluster.world_size, chosen.pop("moved")
        if ranks % (chosen["pp"] * chosen["tp"]):
            raise ValueError(f"pp {chosen['pp']} × tp {chosen['tp']} does not divide the {ranks} ranks")
        layers = list(layers_by_stage(self.level.shape, chosen["pp"])) if moved and chosen["pp"] > 1 else None
        if layers:
            layers[0] += moved
            layers[-1] -= moved
        dp = ranks // (chosen["pp"] * chosen["tp"])
        return ParallelLayout(dp, layers=tuple(layers) if layers else None, **chosen)

    def scenes(self) -> tuple[Scene, Scene]:
        """The picture of that layout, played, wide and narrow; or why it can't be played."""
        try:
            laid = play_layout(self.level, self.layout())
        except ValueError as error:
            return refused_scene(self.level, str(error), WIDTH), refused_scene(self.level, str(error), NARROW)
        self.attempts.append(laid)
        if self._played and self.is_moved:
            self._played(laid)
        return cluster_scene(laid, WIDTH), cluster_scene(laid, NARROW)

    def __repr__(self) -> str:
        return f"<ClusterBoard: {self.widget.scene['steps'][0]['words']}>"


def play_cluster(number: int) -> ClusterBoard:
    """A level of `cluster_game` with sliders: lay out a model on the machines that there are.

    Args:
        number: of the level, from 1 on.

    Raises:
        ValueError: there is no such level.
    """
    return ClusterBoard(cluster_level(number))


def _layout_sliders(level: ClusterLevel) -> dict[str, Slider]:
    ranks, shape = level.cluster.world_size, level.shape
    tp = [size for size in _divisors(ranks) if shape.heads % size == 0]
    pp = [size for size in _divisors(ranks) if size <= shape.layers]
    moves = range(1 - shape.layers // 2, shape.layers // 2)
    return {
        "tp": Slider("ranks sharing a layer (tp)", [(count(size, "rank"), size) for size in tp], 1),
        "pp": Slider("pipeline stages (pp)", [(count(size, "stage"), size) for size in pp], 1),
        "stage": Slider("sharded over dp (ZeRO)", [(f"stage {stage}", stage) for stage in STAGES], 0),
        "microbatches": Slider("microbatches of a copy", [(str(each), each) for each in _divisors(level.batch)], 1),
        "recompute": Slider(
            "recomputed in the backward pass", [(_AGAIN[each], each) for each in RECOMPUTE], "none", kind="choice"
        ),
        "axes": Slider(
            "order of axes, innermost last",
            [("-".join(axes), axes) for axes in ORDERS],
            ORDERS[0],
            kind="choice",
        ),
        "moved": Slider("layers moved to the first stage", [(count(each, "layer"), each) for each in moves], 0),
    }


def _divisors(number: int) -> Iterator[int]:
    return (each for each in range(1, number + 1) if number % each == 0)
