"""Players: pictures of a run that a student plays, steps and scrubs through.

    play_timeline(world.trace)                       messages, round by round or in time
    play_chunks(watch_chunks(world, my_all_reduce))  which contributions each rank holds
    play_pipeline(time_schedule(my_schedule))        which microbatches each rank keeps, action by action

A player opens in the midst of the run, so that those who only pass by see what moves; played, it begins at the start.
It is two outputs of a cell: the widget, and an image of the end, which is seen in a notebook that is opened again
without a kernel (see `live`). Everything is sent once; from then on the browser steps by itself, also while the kernel
is busy.
"""

from __future__ import annotations

from typing import Literal

import anywidget
import traitlets

from distlib.draw.charts.action_looks import check_timing
from distlib.draw.charts.coloring import ColorBy
from distlib.draw.chunks.chunk_history import ChunkHistory
from distlib.draw.live import BROWSER, show_live
from distlib.draw.players.chunk_scene import chunk_scene
from distlib.draw.players.pipeline_scene import Kept, pipeline_scene
from distlib.draw.players.scene import Scene
from distlib.draw.players.still import still_html
from distlib.draw.players.timeline_scene import timeline_scene
from distlib.draw.style import count
from distlib.trace import Trace
from distlib.training.schedules import Timing

MAX_ACTIONS = 512
"""More actions than this are not played: nobody could follow them."""

MAX_MESSAGES = 2_000
"""More messages than this are not played: nobody could follow them."""


class PlayerWidget(anywidget.AnyWidget):
    """The widget in the browser.

    Attributes:
        scene: what is played, as `Scene.to_data` gives it.
        narrow: the same for little room; {} if there is no such scene.
        step: which step is shown. The browser does not report its own steps: the kernel may be busy, or gone.
    """

    _esm = BROWSER / "player.js"
    _css = BROWSER / "player.css"
    scene = traitlets.Dict().tag(sync=True)
    narrow = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)


class Player:
    """A scene to be played. As the last line of a cell it shows itself; elsewhere use `display(player)`.

    Keys: space plays and pauses, ← and → step, Home and End go to the start and the end.

    Attributes:
        scene: what is played.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def _ipython_display_(self) -> None:
        widget = PlayerWidget(scene=self.scene.to_data(), step=self.scene.opens_at)
        show_live(widget, repr(self), still_html(self.scene))

    def __repr__(self) -> str:
        return f"<Player: {self.scene.title}. {count(len(self.scene.steps), 'step')}>"


def play_timeline(
    trace: Trace,
    title: str | None = None,
    by: Literal["round", "time"] = "round",
    *,
    color_by: ColorBy | None = None,
) -> Player:
    """A trace to play: an arrow for each message, and bars of the bytes that each rank has sent and received.

    Args:
        trace: of a run, as `world.trace`, up to 2,000 messages. It may have ended in an error.
        title: the headline; by default "Messages of 4 ranks".
        by: "round": a step is a round. "time": a step is the moment at which a message has arrived.
        color_by: how the arrows are colored, as for `timeline`.

    Raises:
        TypeError: `trace` is no Trace.
        ValueError: `by` or `color_by` is another word; too many messages; or the run has kept only counts.
    """
    if not isinstance(trace, Trace):
        raise TypeError(f"expected a Trace, as world.trace is after a run, got {type(trace).__name__}")
    if by not in ("round", "time"):
        raise ValueError(f"expected by='round' or 'time', got {by!r}")
    if len(trace) > MAX_MESSAGES:
        raise ValueError(
            f"expected a trace of at most {MAX_MESSAGES:,} messages to play, got {len(trace):,}: "
            f"run on fewer ranks, take a part with trace.filter(…), or draw it with timeline(trace)"
        )
    if len(trace) > len(trace.messages):
        raise ValueError("expected a trace of messages, got only counts: make the world with record=True")
    title = title or f"Messages of {count(trace.world_size, 'rank')}"
    return Player(timeline_scene(trace, title, by, color_by))


def play_chunks(history: ChunkHistory, title: str | None = None) -> Player:
    """A history to play: which contributions to which chunk each rank holds, after each round.

    Args:
        history: as `watch_chunks` returns it. If the run ended in an error, it is played up to there.
        title: the headline.

    Raises:
        TypeError: `history` is no ChunkHistory.
    """
    if not isinstance(history, ChunkHistory):
        raise TypeError(f"expected a ChunkHistory, as watch_chunks returns it, got {type(history).__name__}")
    title = title or "Whose contributions are in which chunk"
    return Player(chunk_scene(history, title))


def play_pipeline(timing: Timing, title: str | None = None, kept: Kept | None = None) -> Player:
    """A pipeline to play: the actions of each rank, and slots for the microbatches that it keeps.

    Args:
        timing: as `time_schedule` returns it, or of the spans that a pipeline noted. Up to 512 actions.
        title: the headline; by default "A pipeline of 4 ranks".
        kept: by rank, after each of its actions, the bytes kept of each (stage, microbatch), as
            `Pipeline.record.kept` has them. None: what the actions say, without bytes.

    Raises:
        TypeError: `timing` is no Timing.
        ValueError: no action, too many, or `kept` is of other actions.
    """
    check_timing(timing)
    lengths = list(map(len, timing.spans))
    if sum(lengths) > MAX_ACTIONS:
        raise ValueError(
            f"expected a pipeline of at most {MAX_ACTIONS} actions to play, got {sum(lengths):,}: "
            "take fewer microbatches, or draw it with pipeline_timeline(timing)"
        )
    if kept is not None and list(map(len, kept)) != lengths:
        raise ValueError(
            f"expected what is kept after each of {lengths} actions by rank, got {list(map(len, kept))}: "
            "take both from the same run"
        )
    return Player(pipeline_scene(timing, title or f"A pipeline of {count(len(lengths), 'rank')}", kept))
