"""What the ranks print, shown in the cell as it happens, each line with its rank in front.

rank 0 ──pipe──┐
rank 1 ──pipe──┼──► [rank 1] loss 0.25
…              │    [rank 0] loss 0.27
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable
from typing import TextIO

OnOutput = Callable[[int, str, str], None]
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)")  # a progress bar ends its lines with \r
_READ = 65536


def print_output(rank: int, stream: str, text: str) -> None:
    """Print what a rank has printed, to the stream of the same name. `text`: whole lines, each with its end.

    A notebook shows it by itself a moment later; a flush would only make the kernel wait for that.
    """
    out = getattr(sys, stream)
    if out is None:  # it was closed when this process began
        return
    print(_writable(mark_lines(text, f"[rank {rank}] "), out), end="", file=out, flush=out.isatty())


def _writable(text: str, out: TextIO) -> str:
    """The text; signs that the stream's encoding lacks are written as their numbers, as Python's own messages are."""
    encoding = getattr(out, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def mark_lines(text: str, mark: str) -> str:
    """`text`, whole lines, with `mark` in front of each of them."""
    return _LINE.sub(lambda line: mark + line.group(), text)


class OutputRelay:
    """Passes on one stream of one rank, in whole lines.

    Args:
        rank, stream: whose it is; stream is "stdout" or "stderr".
        fd: the end of the pipe to read.
        on_output: called with (rank, stream, text), where text is one or more lines, each with its end.
    """

    def __init__(self, rank: int, stream: str, fd: int, on_output: OnOutput) -> None:
        self._rank, self._stream, self._on_output = rank, stream, on_output
        self.fd = fd
        os.set_blocking(fd, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""

    def read(self, room: int) -> int:
        """Pass on what is there now, as long as `room` bytes are not used up. Returns how many bytes were read."""
        try:
            data = os.read(self.fd, _READ)
        except BlockingIOError:
            return 0
        if room > 0:
            self._pass_on(self._pending + self._decoder.decode(data[:room]))
        return len(data)

    def mute(self) -> None:
        """From now on read, and throw away."""
        self._on_output = lambda rank, stream, text: None

    def finish(self) -> None:
        """Pass on a last line that has no end."""
        if self._pending:
            self._on_output(self._rank, self._stream, self._pending + "\n")
            self._pending = ""

    def _pass_on(self, text: str) -> None:
        end = max(text.rfind("\n"), text.rfind("\r")) + 1  # the search for lines is slow where there is no end
        kept = "".join(line for line in _LINE.findall(text[:end]) if line != "\r")
        if kept:
            self._on_output(self._rank, self._stream, kept)
        self._pending = text[end:]
