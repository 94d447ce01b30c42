"""Cases that take long to draw are drawn once, for all answers that are judged after each other.

Some are chosen from many, each of which is trained with every usual mistake; that took more than the judging itself.
They are drawn in a process of their own: after a backward pass in this one, no process that is forked could make any.
"""

from __future__ import annotations

import builtins
import contextlib
import multiprocessing
import pickle
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, NoReturn
from unittest.mock import patch

import torch

from distlib.checks.case import Case
from distlib.checks.task import Draw, Task

LONG = 0.02  # seconds

Key = tuple[object, str]  # the state of the numbers that are drawn from, and the options


class Remembered:
    """A check's generator of cases that gives those which are drawn already, once: whoever gets them may change them.

    Attributes:
        cases: the generator.
        drawn: these cases.
    """

    def __init__(self, cases: Callable[..., Iterator[Case]]) -> None:
        self.cases = cases
        self.drawn: dict[Key, list[Case]] = {}

    def __call__(self, draw: Draw, **options: Any) -> Iterator[Case]:
        """The cases."""
        known = self.drawn.pop(_key(draw, options), None)
        return self.cases(draw, **options) if known is None else iter(known)


def remember_cases(test_cells: Iterable[types.CodeType]) -> None:
    """Draw the cases of these test cells; each process that is forked from this one has them."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_draw_all, args=(list(test_cells), sending), daemon=True)
    process.start()
    sending.close()
    with contextlib.suppress(EOFError):
        while True:
            _remember(*pickle.loads(receiving.recv_bytes()))
    process.join()


def _remember(module: str, name: str, key: Key, cases: list[Case]) -> None:
    check = getattr(sys.modules[module], name)
    if not isinstance(check.cases, Remembered):
        check.cases = Remembered(check.cases)
    check.cases.drawn[key] = cases


def _key(draw: Draw, options: dict[str, Any]) -> Key:
    return draw.getstate(), repr(options)


class _IsDrawn(Exception):
    """Ends a test cell."""


def _draw_all(test_cells: Iterable[types.CodeType], connection: Connection) -> None:
    torch.set_num_threads(1)

    def call(check: Task, function: object, *, seed: int = 1, **options: Any) -> NoReturn:
        start, draw = time.process_time(), Draw(seed)
        key, cases = _key(draw, options), check.cases
        if isinstance(cases, Remembered):
            if key in cases.drawn:
                raise _IsDrawn
            cases = cases.cases
        drawn = list(cases(draw, **options))
        if time.process_time() - start > LONG:
            connection.send_bytes(pickle.dumps((cases.__module__, check.__name__, key, drawn)))
        raise _IsDrawn

    with patch.object(Task, "__call__", call):
        for code in test_cells:
            with contextlib.suppress(Exception):  # a cell that needs more than the names of functions draws for itself
                exec(code, {name: sys.modules.get(name) for name in code.co_names if not hasattr(builtins, name)})
