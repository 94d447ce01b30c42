"""Runs that do not end: what their error says, on a busy machine, too."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from distlib import RunTimeout, SimulatedWorld, World


def out_of_time(world: World | SimulatedWorld, function: Callable[..., Any], words: str) -> str:
    """The message of a run that is stopped by its time limit.

    The ranks may need any time to get to where they stay. So as long as the pattern `words` is not in the message, the
    run is repeated, with four times as much time.
    """
    for seconds in (0.5, 2, 8, 32):
        with pytest.raises(RunTimeout, match=f"not done after {seconds:g} s") as caught:
            world.run(function, timeout=seconds)
        if re.search(words, str(caught.value)):
            break
    return str(caught.value)
