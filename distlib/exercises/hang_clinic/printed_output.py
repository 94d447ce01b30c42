"""What four ranks of a program have printed before it stood still or ended, with one rank and one cause behind it.

    train.py:41 all_reduce [8] float32        a call begins
    step 1: loss 0.52                         anything else
    RuntimeError: Connection closed by peer   what has ended a rank, below its traceback

Every rank makes the same calls in each step. At one of them, one rank does something else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

CAUSES = ("raised", "finished", "killed", "slow", "skipped", "extra", "shape", "dtype")
CLOSED, TIMED_OUT = "Connection closed by peer", "Timed out waiting 1800000ms for recv operation to complete"
FOLLOWS = {"slow": TIMED_OUT, "skipped": TIMED_OUT, "extra": TIMED_OUT}  # on the other ranks; else CLOSED
RANKS = 4
_LINES = [*range(4, 100), *range(100, 1_400, 13)]  # of the program, of one to four digits
_FOLDERS = ("/home/eve", "/srv/jobs/7", "/mnt/runs/bo")  # of the program
_COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
_DTYPES = ("float32", "float64", "int64", "bfloat16")
_ERRORS = (
    "ValueError: label 12 is not in 0 … 9",
    "KeyError: 'encoder.bias'",
    "IndexError: index 64 is out of range",
    "OSError: [Errno 5] Input/output error",
    "ZeroDivisionError: division by zero",
)
_ERRORS_OF_A_CONNECTION = (  # of the rank's own, and not of the others'
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "ConnectionRefusedError: [Errno 111] Connection refused",
    "TimeoutError: [Errno 110] Connection timed out",
)
_ASIDE = (
    "loader: OSError at the first try, reading again",
    "train.py:95: UserWarning: the learning rate is 0",
    "loader: 1 sample left out (ValueError: empty text)",
)
_ASIDE_OF_A_CONNECTION = "loader: Connection closed by peer, opened again"
_NAMES = ("step", "load", "read", "label_of")  # in the traceback of an error of the rank's own


@dataclass(frozen=True)
class Call:
    """A collective call at a line of the program."""

    line: int
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def text(self) -> str:
        """As it is printed."""
        return f"train.py:{self.line} {self.name} {list(self.shape)} {self.dtype}"


@dataclass(frozen=True)
class Incident:
    """What ranks have printed, and what was behind it.

    Attributes:
        outputs: by rank, the lines.
        rank: the one that it was.
        line: where it was last seen: it raised there, or that was its last call.
        cause: one of `CAUSES`.
        others_line: where all others wait.
    """

    outputs: Sequence[Sequence[str]]
    rank: int
    line: int
    cause: str
    others_line: int


def incident(draw: random.Random, cause: str, *, of_a_connection: bool = False, is_long: bool = False) -> Incident:
    """A drawn one.

    Args:
        draw: where all of it comes from.
        cause: one of `CAUSES`.
        of_a_connection: if the rank raises an error of its own, that speaks of a connection, and the program itself
            raises it. Otherwise a file of torch stands last in the traceback. Whoever plays both meets both.
        is_long: a step has 40 to 48 calls in place of 2 to 5, and it happens in the second half of a step. (A rank that
            has finished still ends between two steps.) Every rank has lost a connection to a loader, and got it back.
    """
    calls = _calls(draw, draw.randint(40, 48) if is_long else draw.randint(2, 5))
    elsewhere, *inside = draw.sample([line for line in _LINES if line not in {call.line for call in calls}], 5)
    raised = inside[: draw.randint(3, len(_NAMES))]
    rank, steps, folder = draw.randrange(RANKS), draw.randint(1, 3), draw.choice(_FOLDERS)
    first = len(calls) // 2 if is_long else 0
    index = 0 if cause == "finished" else draw.randrange(first, len(calls) - (cause == "skipped"))
    others = calls[index]
    own = _instead(draw, cause, calls, index, elsewhere)
    outputs = []
    for other in range(RANKS):
        first_line, *before = _before(draw, calls, steps, index)
        before = [first_line, *[_ASIDE_OF_A_CONNECTION] * is_long, *before]
        if other == rank:
            outputs.append([*before, *_end(draw, cause, own, folder, raised, of_a_connection)])
        else:
            outputs.append([*before, *_waits(others, FOLLOWS.get(cause, CLOSED), folder)])
    last = calls[index - 1].line  # of the step before, if index is 0
    line = own.line if own else raised[-1] if cause == "raised" else last
    return Incident(outputs, rank, line, cause, others.line)


def _calls(draw: random.Random, number: int) -> list[Call]:
    """Those of a step, each at a line of its own."""
    lines = draw.sample(_LINES, number)
    return [Call(line, draw.choice(_COLLECTIVES), _shape(draw), draw.choice(_DTYPES)) for line in lines]


def _shape(draw: random.Random) -> tuple[int, ...]:
    """Of none to three dimensions."""
    return tuple(draw.randint(2, 64) for _ in range(draw.choice((0, 1, 1, 2, 3))))


def _before(draw: random.Random, calls: Sequence[Call], steps: int, index: int) -> list[str]:
    """What a rank prints up to the call at which it happens: whole steps, and the calls before."""
    printed = []
    for step in range(steps + 1):
        if draw.random() < 0.3:
            printed.append(draw.choice(_ASIDE))
        printed += [call.text for call in (calls if step < steps else calls[:index])]
        if step < steps:
            printed.append(f"step {step + 1}: loss {draw.uniform(0.1, 2):.3f}")
    return printed


def _instead(draw: random.Random, cause: str, calls: Sequence[Call], index: int, elsewhere: int) -> Call | None:
    """The call that the one rank makes in the place of that of the others; None if it makes none."""
    call = calls[index]
    if cause == "skipped":
        return calls[index + 1]
    if cause == "extra":
        return Call(elsewhere, draw.choice(_COLLECTIVES), call.shape, call.dtype)
    if cause == "shape":
        *first, last = call.shape or (2,)
        return Call(call.line, call.name, (*first, last + draw.choice((-1, 1))), call.dtype)
    if cause == "dtype":
        return Call(call.line, call.name, call.shape, draw.choice([each for each in _DTYPES if each != call.dtype]))
    return None


def _end(
    draw: random.Random, cause: str, own: Call | None, folder: str, lines: Sequence[int], of_a_connection: bool
) -> list[str]:
    """How the output of the one rank ends. `lines`: of the program, which lies in `folder`, for a traceback."""
    if own:
        return _waits(own, FOLLOWS.get(cause, CLOSED), folder)
    if cause == "raised":
        files = [
            f'  File "{folder}/train.py", line {line}, in {name}' for line, name in zip(lines, _NAMES, strict=False)
        ]
        inside = ['  File "/opt/torch/utils/data/dataset.py", line 350, in __getitem__'] * (not of_a_connection)
        error = draw.choice(_ERRORS_OF_A_CONNECTION if of_a_connection else _ERRORS)
        return ["Traceback (most recent call last):", *files, *inside, error]
    return ["finished"] if cause == "finished" else []


def _waits(call: Call, error: str, folder: str) -> list[str]:
    """The end of the output of a rank that was in a call when that failed. `folder`: of the program."""
    return [
        call.text,
        "Traceback (most recent call last):",
        f'  File "{folder}/train.py", line {call.line}, in step',
        f'  File "/opt/torch/distributed/distributed_c10d.py", line 2810, in {call.name}',
        f"RuntimeError: {error}",
    ]
