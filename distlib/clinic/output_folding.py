"""What torch prints, with what is not about the program folded: its own frames, C++ stacks, times, file systems.

File "/home/…/torch/distributed/c10d_logger.py", line 83, in wrapper    ──►  (… 2 frames of libraries)
frame #0: c10::Error::Error(c10::SourceLocation, …                      ──►  (… 38 frames of C++)
Exception ignored in: <function DataLoaderIter.__del__ at 0x7f3c…> …    ──►  (… 18 lines that Python ignores: …)
[W1127 03:32:11.815876941 socket.cpp:207] [c10d] …                      ──►  [W socket.cpp:207] …
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

_LIBRARY, _CPP = "libraries", "C++"

# A network of its own, as these programs have, has no service of names. The programs work without it.
_OF_OUR_NETWORK = "The hostname of the client socket cannot be retrieved"

# Frames around the program, in our own threads, and those of threads that end with it.
_OURS = re.compile(r"/distlib/(clinic|frameworks)/|/threading\.py|\"<string>\"")

_SHORTER = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),  # colors
    (re.compile(r"\[([WEI])\d{4} [\d:.]+ (?=\w+\.cpp)"), r"[\1 "),
    (re.compile(r"\[c10d\] "), ""),
    (re.compile(r"\[rank(\d+)\]:"), ""),
    (re.compile(r"/\S*?/(third_party/gloo|site-packages)/"), ""),
    (re.compile(r"/\S*?/pytorch/(?=torch/csrc)"), ""),
    (re.compile(r"\[127\.0\.0\.1\]:\d+"), "[127.0.0.1]:…"),
    (re.compile(r", TensorDeviceTypes=TensorOptions\(.*?\(nullopt\)\)"), ""),
    (re.compile(r"(TensorOptions)\(dtype=.*?\(nullopt\)\)"), r"\1(…)"),
    (re.compile(r"(pid(?:\(s\))?:?) \d+(, \d+)*"), r"\1 …"),
    (re.compile(r"Thread 0x[0-9a-f]+"), "Thread"),
    (re.compile(r"SocketImpl\(.*\) (?=returned|timed)"), "… "),
)


def fold(lines: Iterable[str], file: str) -> list[str]:
    """The lines that a process has printed, shorter.

    Args:
        lines: as printed.
        file: the program's file, whose frames are kept.
    """
    own = list(_own_lines(_without_ignored(lines), file))
    marked = ((_kind(line, file), line) for line in _without_other_threads(own))
    folded: list[str] = []
    for kind, group in groupby(marked, key=lambda pair: pair[0]):
        found = [line for _, line in group]
        folded += [shorter(line) for line in found] if kind is None else [_counted(found, kind)]
    return folded


def _without_ignored(lines: Iterable[str]) -> Iterator[str]:
    """An exception that Python prints and ignores, mostly in a `__del__`, is one line: how long it was, and the error.

    A DataLoader raises one wherever the program is when a worker dies.
    """
    rest = iter(lines)
    for line in rest:
        if not line.startswith("Exception ignored "):
            yield line
            continue
        number = 1
        for line in rest:
            number += 1
            if line.strip() and not line.startswith((" ", "Traceback ")):  # after the frames: the error
                break
        yield f"  (… {number} lines that Python ignores: {line.strip()})"


def _own_lines(lines: Iterable[str], file: str) -> Iterator[str]:
    """Without the source below a frame of a library, our own frames, and what only our network is the cause of."""
    in_library = False
    for line in lines:
        if _is_frame(line):
            in_library = file not in line
            if not _OURS.search(line):
                yield line
        elif not (in_library and line.startswith("    ")) and _OF_OUR_NETWORK not in line:
            in_library = in_library and not line.strip()
            yield line


def _without_other_threads(lines: Sequence[str]) -> list[str]:
    """Without the headings of threads that are ours alone: nothing is left below them."""
    return [
        line
        for line, after in pairwise([*lines, ""])
        if line.strip() and not (line.startswith("Thread ") and not after.strip())
    ]


def _is_frame(line: str) -> bool:
    return line.startswith('  File "')


def _kind(line: str, file: str) -> str | None:
    if _is_frame(line) and file not in line:
        return _LIBRARY
    return _CPP if re.match(r"frame #\d+:|Exception raised from|<omitting python frames>", line) else None


def _counted(lines: Sequence[str], kind: str) -> str:
    """How many frames, and which functions of a library they are in."""
    functions = [line.rpartition(" in ")[2] for line in lines if kind == _LIBRARY]
    named = list(dict.fromkeys(name for name in functions if name not in ("wrapper", "<module>")))[:3]
    return f"  (… {len(lines)} frame{'s' * (len(lines) > 1)} of {kind}{': ' if named else ''}{', '.join(named)})"


def shorter(line: str) -> str:
    """A line without times, process numbers, ports and folders."""
    for pattern, instead in _SHORTER:
        line = pattern.sub(instead, line)
    return line.rstrip()
