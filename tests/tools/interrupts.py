"""The kernel is interrupted while processes run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from distlib.frameworks import run_processes


def interrupted_at_a_line(words: str = "") -> Callable[..., Any]:
    """`run_processes`, and an interrupt as soon as one of the processes has printed a line with these words."""

    def interrupt(name: str, line: str) -> None:
        if words in line:
            signal.raise_signal(signal.SIGINT)

    def run(processes: Any, **options: Any) -> Any:
        return run_processes(processes, **{**options, "on_output": interrupt})

    return run
