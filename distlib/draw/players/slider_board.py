"""A picture under sliders that is drawn anew, in Python, at every move."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping

import ipywidgets

from distlib.draw.live import show_live
from distlib.draw.players.player import PlayerWidget
from distlib.draw.players.scene import Scene
from distlib.draw.players.slider import Slider
from distlib.draw.players.still import still_html


class SliderBoard(ABC):
    """Sliders and a scene. As the last line of a cell it shows itself; elsewhere use `display(board)`.

    Args:
        sliders: name to widget.

    Attributes:
        sliders: as given.
        widget: the picture in the browser.
        is_moved: whether anybody has moved a slider.
    """

    def __init__(self, sliders: Mapping[str, Slider]) -> None:
        self.sliders, self.is_moved = sliders, False
        self._drawing = threading.RLock()
        self.widget = PlayerWidget(scene=self.scene().to_data())
        for slider in self.sliders.values():
            slider.observe(self._draw, names="index")

    @abstractmethod
    def scene(self) -> Scene:
        """The picture at the sliders' present values."""

    def _draw(self, _: object) -> None:
        """Draw the present values, one drawing at a time: the last picture shows every move.

        A kernel handles messages of widgets on the main thread and on another one (a *subshell*), two sliders' at once.
        """
        with self._drawing:
            self.is_moved = True
            self.widget.scene = self.scene().to_data()

    def _ipython_display_(self) -> None:
        box = ipywidgets.VBox([*self.sliders.values(), self.widget])
        show_live(box, repr(self), still_html(self.scene()))
