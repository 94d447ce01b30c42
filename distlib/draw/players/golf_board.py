"""`play_golf`: memory golf with sliders. Every swing is played anew on simulated ranks, in Python."""

from __future__ import annotations

from collections.abc import Callable

from distlib.draw.players.golf_scene import golf_scene, refused_swing, verdict
from distlib.draw.players.scene import Scene
from distlib.draw.players.slider import Slider
from distlib.draw.players.slider_board import SliderBoard
from distlib.draw.style import NARROW, WIDTH, count
from distlib.training.zero.memory_golf import Hole, StepChoice, Swing, hole_of, play_choice
from distlib.training.zero.stage_memory import STAGES

_MOST_MICROBATCHES = 64  # on the slider
_UNITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40)


class GolfBoard(SliderBoard):
    """Sliders and the memory of a step.

    Args:
        hole: which is played.
        played: called with every swing that was played, from the first move on.

    Attributes:
        hole: which is played.
        sliders: name to widget: as `StepChoice` names what is chosen.
        swings: what was played, in order; for `score_card`.
    """

    def __init__(self, hole: Hole, played: Callable[[Swing], None] | None = None) -> None:
        self.hole, self.swings, self._played = hole, list[Swing](), played
        super().__init__(_golf_sliders(hole), at_left=True)

    def choice(self) -> StepChoice:
        """What the sliders say at present."""
        return StepChoice(**{name: slider.value for name, slider in self.sliders.items()})

    def scenes(self) -> tuple[Scene, Scene]:
        """The picture of that swing, wide and narrow; or why it can't be played."""
        try:
            swing = play_choice(self.hole, self.choice())
        except ValueError as error:
            return refused_swing(self.hole, f"{error}.", WIDTH), refused_swing(self.hole, f"{error}.", NARROW)
        if not self.swings or self.swings[-1] != swing:
            self.swings.append(swing)
        if self._played and self.is_moved:
            self._played(swing)
        return golf_scene(swing, WIDTH), golf_scene(swing, NARROW)

    def __repr__(self) -> str:
        last = f": {verdict(self.swings[-1])}" if self.swings else ""
        return f"<GolfBoard: hole {self.hole.number}, {self.hole.name}{last}>"


def play_golf(number: int) -> GolfBoard:
    """A hole of `memory_golf` with sliders: train a model in the memory that there is, in as little time as you can.

    Args:
        number: of the hole, from 1 on.

    Raises:
        ValueError: there is no such hole.
    """
    return GolfBoard(hole_of(number))


def _golf_sliders(hole: Hole) -> dict[str, Slider]:
    units = [number for number in _UNITS if number <= hole.blocks]
    parts = [1 << power for power in range(20) if 1 << power <= _MOST_MICROBATCHES and hole.tokens % (1 << power) == 0]
    either = [("yes", True), ("no", False)]
    return {
        "stage": Slider("what is sharded (stage)", [(f"stage {stage}", stage) for stage in STAGES], 0),
        "blocks_per_unit": Slider("blocks per unit", [(count(number, "block"), number) for number in units], 1),
        "checkpointed": Slider(
            "blocks checkpointed", [(f"{number} of {hole.blocks}", number) for number in range(hole.blocks + 1)], 0
        ),
        "microbatches": Slider("microbatches", [(str(number), number) for number in parts], 1),
        "prefetch": Slider("stage 3: prefetch", either, True, kind="choice"),
        "reshard": Slider("stage 3: reshard", either, True, kind="choice"),
    }
