"""matplotlib's backend in a rank, which has no screen: figures can be drawn, saved and returned, and show says so."""

from __future__ import annotations

import sys
from typing import Any

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas

from distlib.worlds.call_site import site_of_frame

__all__ = ["FigureCanvas", "FigureManager", "show"]

FigureManager = FigureManagerBase


def show(*args: Any, **kwargs: Any) -> None:
    """What plt.show() does here: it says what to do instead, on stderr."""
    site = site_of_frame(sys._getframe(1))
    place = f"{site.place}: " if site else ""
    print(
        f"{place}a rank has no screen, so plt.show() shows nothing. Let the function return the figure, "
        "return plt.gcf(), or the numbers, and show them in the notebook.",
        file=sys.stderr,
    )
