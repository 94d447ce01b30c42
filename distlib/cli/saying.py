"""Printing to a reader who may have gone, as after `distlib grade 02_all_reduce | head -3`.

What is printed may have words of students in it, so it is made harmless here, whatever has been done about it before.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from distlib.printable import printable_lines


def say(text: str, stream: TextIO | None = None) -> None:
    """Print. When nobody reads any more, this text and all later ones are dropped, and the command can finish.

    Args:
        text: lines.
        stream: standard output if it is left out.
    """
    stream = stream or sys.stdout
    try:
        print(printable_lines(text), file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # what is left in the buffer goes there, too, when Python ends
        os.close(nowhere)
