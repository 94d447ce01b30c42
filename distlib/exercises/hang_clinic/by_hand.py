"""Exercise 17: a drawn incident to be diagnosed by a reader, not by a program. No marks; it says how long it took."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from distlib.exercises.hang_clinic.printed_output import CAUSES, incident


class Riddle:
    """One incident, a different one each time. The clock runs from the moment at which it is first shown.

    Args:
        draw: where the incident comes from.
        clock: in seconds.
    """

    def __init__(self, draw: random.Random | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        draw = draw or random.Random()
        self._incident = incident(draw, draw.choice(CAUSES), of_a_connection=draw.random() < 0.5)
        self._clock = clock
        self._shown: float | None = None
        self._took: float | None = None

    def show(self) -> None:
        """Print what the four ranks have printed."""
        for rank, lines in enumerate(self._incident.outputs):
            print(f"rank {rank}", *lines, sep="\n    ")
        self._shown = self._clock() if self._shown is None else self._shown

    def answer(self, rank: int, line: int, cause: str) -> None:
        """Print which of the three are wrong; if none is, how long it has taken to say so for the first time."""
        right = {"rank": self._incident.rank, "line": self._incident.line, "cause": self._incident.cause}
        wrong = [name for name, value in {"rank": rank, "line": line, "cause": cause}.items() if value != right[name]]
        if self._shown is None:
            print("Run the cell with riddle.show() first.")
        elif wrong:
            print(f"Not yet. Still wrong: {', '.join(wrong)}.")
        else:
            self._took = self._clock() - self._shown if self._took is None else self._took
            print(f"Right. You named it after {in_words(self._took)}.")


def in_words(seconds: float) -> str:
    """ "2 min 10 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
