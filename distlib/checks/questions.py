"""Checks for functions that only compute, and whose specification stands in the notebook.

    check_answers(double, ["number"], [((3,), 6, "add the number to itself.")])     # double(3) is 6; a usual cause

    def sound(found, sizes, num_servers):                         # a locked cell: what came back, and what was asked
        if len(found) != num_servers:
            return "there are too few lists.", "one for each server, also an empty one."    # what was seen, and a cause
        return None                                               # it is right

    check_each(shard, sound, [([3, 4], 2), ([5], 1)])             # shard([3, 4], 2), shard([5], 1)

Where many results are right, students read in `sound` which are, and may call it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distlib.checks.case import Case
from distlib.checks.remark import Remark
from distlib.checks.report import Report
from distlib.checks.rules.returns import called, returns, shown
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task

say = Sentences(__file__)
Question = Sequence[Any]  # the arguments of a call: plain values


def check_answers(
    function: Callable[..., Any], names: Sequence[str], questions: Sequence[tuple[Question, Any, str]]
) -> Report:
    """Ask a student's function each question; it must return the one right value.

    Args:
        names: of the arguments.
        questions: the arguments, what is to be returned, and the usual cause of anything else.

    Raises:
        CheckFailed: what is wrong with the first answer that differs.
    """

    def cases(draw: Draw) -> Iterator[Case]:
        return (called(*arguments, facts=(right, cause)) for arguments, right, cause in questions)

    def judge(seen: Seen) -> Remarks:
        yield returns(seen, seen.facts[0], otherwise=seen.facts[1])

    check = task(*names, errors=lambda seen: [("No module named", ""), ("raised", seen.facts[1])])(cases)
    check.judge(judge)
    return check(function)


def check_each(
    function: Callable[..., Any], sound: Callable[..., tuple[str, str] | None], questions: Sequence[Question]
) -> Report:
    """Ask a student's function each question; what it returns must be sound.

    Args:
        sound: called with what was returned, and then as the function was. It returns None, or what is wrong and its
            usual cause. Its parameters, the first left out, are those of the function. If it stops with an error, what
            was returned has a wrong form.
        questions: the arguments of each call.

    Raises:
        CheckFailed: what is wrong with the first answer that is not sound.
    """

    def cases(draw: Draw) -> Iterator[Case]:
        return (called(*question, facts=question) for question in questions)

    def judge(seen: Seen) -> Remarks:
        try:
            wrong = sound(seen[0], *seen.facts)
        except (TypeError, ValueError, LookupError, AttributeError):
            yield say.remark("wrong_form", found=shown(seen[0]))
        else:
            yield Remark(wrong[0], cause=wrong[1]) if wrong else None

    check = task(*list(inspect.signature(sound).parameters)[1:])(cases)
    check.judge(judge)
    return check(function)
