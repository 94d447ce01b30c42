"""A picture under sliders that is drawn anew, in Python, at every move."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

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
        at_left: whether the sliders stand left of the picture, where there is room.

    Attributes:
        sliders: as given.
        widget: the picture in the browser.
        is_moved: whether anybody has moved a slider.
    """

    def __init__(self, sliders: Mapping[str, Slider], at_left: bool = False) -> None:
        self.sliders, self.is_moved, self._at_left = sliders, False, at_left
        self._drawing = threading.RLock()
        self.widget = PlayerWidget()
        self._show()
        for slider in self.sliders.values():
            slider.observe(self._draw, names="index")

    @abstractmethod
    def scenes(self) -> Sequence[Scene]:
        """The picture at the sliders' present values: wide, and perhaps a narrow one for little room."""

    def scene(self) -> Scene:
        """The picture in its wide form."""
        return self.scenes()[0]

    def _show(self) -> None:
        wide, *narrow = self.scenes()
        with self.widget.hold_sync():  # the browser gets both at once
            self.widget.narrow = narrow[0].to_data() if narrow else {}
            self.widget.scene = wide.to_data()

    def _draw(self, _: object) -> None:
        """Draw the present values, one drawing at a time: the last picture shows every move.

        A kernel handles messages of widgets on the main thread and on another one (a *subshell*), two sliders' at once.
        """
        with self._drawing:
            self.is_moved = True
            self._show()

    def _ipython_display_(self) -> None:
        sliders = ipywidgets.VBox([*self.sliders.values()])
        sliders.add_class("distlib-sliders")
        box = ipywidgets.VBox([sliders, self.widget])
        box.add_class("distlib-board")
        box.add_class("distlib-at-left" if self._at_left else "distlib-above")
        show_live(box, repr(self), still_html(self.scene()))
