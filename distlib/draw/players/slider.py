"""One of several values, chosen in the browser: a slider, or round buttons where the values are few words.

Other than ipywidgets' SelectionSlider it has a name that a screen reader reads, and reads "1 MiB" instead of "9".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import anywidget
import traitlets

from distlib.draw.live import BROWSER


class Slider(anywidget.AnyWidget):
    """The widget in the browser.

    Attributes:
        label: what is chosen, in words.
        words: each value in words.
        kind: "slider" or "choice".
        index: which value is chosen.
        heard: which one the kernel knows of. If it stays behind, the kernel is busy, or gone.
        options: each value, in words and as it is.
    """

    _esm = BROWSER / "slider.js"
    _css = BROWSER / "slider.css"
    label = traitlets.Unicode().tag(sync=True)
    words = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    index = traitlets.Int(0).tag(sync=True)
    heard = traitlets.Int(0).tag(sync=True)

    def __init__(
        self, label: str, options: Sequence[tuple[str, Any]], value: Any, kind: Literal["slider", "choice"] = "slider"
    ) -> None:
        self.options = tuple(options)
        index = self._index_of(value)
        super().__init__(label=label, words=[words for words, _ in options], kind=kind, index=index, heard=index)
        self.observe(self._hear, names="index")

    def _hear(self, _: object) -> None:
        self.heard = self.index

    @property
    def value(self) -> Any:
        """The number that is chosen."""
        return self.options[self.index][1]

    @value.setter
    def value(self, value: Any) -> None:
        self.index = self._index_of(value)

    def _index_of(self, value: Any) -> int:
        """Raises ValueError if there is no such value."""
        return [one for _, one in self.options].index(value)
