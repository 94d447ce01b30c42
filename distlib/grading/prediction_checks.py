"""The checks of predict_time and choose_algorithm: ask the student's function, compare, explain the first difference.

Nothing communicates here. What is right, `prediction_case` knows. A prediction is compared to 9 digits; any algorithm
that takes as long as the fastest, to 6 digits, is a right choice.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from distlib.checks.patience import seconds_for
from distlib.checks.remark import CheckFailed, Remark
from distlib.checks.supplied import supplied
from distlib.grading import checks
from distlib.grading.checks import name_of, show_printed
from distlib.grading.errors import explain_error
from distlib.grading.prediction_case import Question
from distlib.grading.prediction_causes import cause_of_time, latency_of, steps_of, travel_of
from distlib.grading.prediction_report import Answers, readable
from distlib.grading.pure_calls import Call, Reply, call
from distlib.network import Cluster

Judge = Callable[[Question, Reply], Remark | None]


def check_predict_time(
    function: Callable[..., object],
    *,
    algorithms: Sequence[str],
    nbytes: Sequence[int],
    clusters: Sequence[Cluster],
) -> Answers:
    """Check `function(algorithm, nbytes, cluster)`: the seconds that an all-reduce takes.

    Every combination is one question; they are asked in the order given, cluster by cluster.

    Args:
        algorithms: names out of "ring", "tree", "halving_doubling", "hierarchical".
        nbytes: sizes of the tensor in bytes.
        clusters: what it is all-reduced on.

    Returns:
        The questions with the answers, if all are right.

    Raises:
        CheckFailed: the first question that was answered wrongly. No other exception of the function gets through.
        ValueError: the test cell asks what has no exact answer.
    """
    name = name_of(function, ("algorithm", "nbytes", "cluster"))
    questions = [
        Question(name, size, cluster, (algorithm,))
        for cluster, algorithm, size in itertools.product(clusters, algorithms, nbytes)
    ]
    return _ask(function, questions, lambda q: (q.algorithms[0], q.nbytes, q.cluster), _judge_time)


def check_choose_algorithm(
    function: Callable[..., object],
    *,
    choices: Sequence[Sequence[str]],
    nbytes: Sequence[int],
    clusters: Sequence[Cluster],
    helpers: Sequence[str] = (),
) -> Answers:
    """Check `function(nbytes, cluster, algorithms)`: the name of the fastest of these algorithms.

    Args:
        choices: tuples of names to choose from.
        helpers: names in the student's notebook that lead to functions of ours while the check runs.

    The other arguments, the result and exceptions as in `check_predict_time`.
    """
    name = name_of(function, ("nbytes", "cluster", "algorithms"))
    questions = [
        Question(name, size, cluster, tuple(names))
        for cluster, names, size in itertools.product(clusters, choices, nbytes)
    ]
    return _ask(function, questions, lambda q: (q.nbytes, q.cluster, q.algorithms), _judge_choice, helpers)


def _ask(
    function: Callable[..., object],
    questions: Sequence[Question],
    arguments: Callable[[Question], tuple[object, ...]],
    judge: Judge,
    helpers: Sequence[str] = (),
) -> Answers:
    """Ask until an answer is wrong."""
    answers = Answers(questions[0].function)
    printed, spent = "", 0.0
    for question in questions:
        with supplied(function, helpers):
            limit = seconds_for(checks.CASE_SECONDS, checks.CHECK_SECONDS, spent)
            seen = call(function, arguments(question), limit, helpers)
        spent += seen.seconds
        remark = _look(question, seen, judge)
        if seen.printed and (remark or not printed):
            printed = seen.printed
            show_printed(printed, question.title)
        if remark is not None:
            raise CheckFailed(question.title, remark, answers.summary())
        assert seen.reply is not None and seen.reply.value is not None
        answers.add(question, seen.reply.value)
    return answers


def _look(question: Question, seen: Call, judge: Judge) -> Remark | None:
    if seen.error is not None:
        return explain_error(None, seen.error)
    assert seen.reply is not None
    if seen.reply.library is None:
        return judge(question, seen.reply)
    return Remark(
        f"it calls {seen.reply.library}, a function of the library.",
        cause=f"a library function does the work. The exercise is to write {question.function} with numbers of "
        "`cluster` and its links.",
    )


# ── a time ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_time(question: Question, reply: Reply) -> Remark | None:
    (expected,) = question.seconds.values()
    found = reply.value
    if not isinstance(found, float):
        return _no_number(reply)
    if math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-15):
        return None
    return Remark(
        "the predicted time is wrong.",
        (
            f"expected {expected:.10g} s, that is {readable(expected)}: the time of a simulated run",
            f"found    {found:.10g} s" + (f", {found / expected:.4g} times that" if expected else ""),
        ),
        _cause_of_time(question, expected, found),
    )


def _no_number(reply: Reply) -> Remark:
    returned = "None" if reply.returned_type == "NoneType" else f"a value of type {reply.returned_type}"
    cause = "the last line of the function must return the result. Is there a return for every algorithm?"
    if reply.returned_type != "NoneType":
        cause = "return a float: seconds."
    return Remark(f"it returned {returned}; expected a number of seconds.", cause=cause)


def _cause_of_time(question: Question, expected: float, found: float) -> str:
    if not expected:
        return "with one rank there is nothing to do: the time is 0."
    known = cause_of_time(question, found)
    if known:
        return known
    steps = steps_of(question.algorithms[0], question.nbytes, question.cluster)
    return (
        f"no mistake known here. There are {len(steps)} steps. Their latencies add up to "
        f"{readable(latency_of(steps))}, their bytes to {readable(travel_of(steps))}. Which of the two is different?"
    )


# ── a choice ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _judge_choice(question: Question, reply: Reply) -> Remark | None:
    found, seconds = reply.value, question.seconds
    if not isinstance(found, str):
        return _no_name(question, reply)
    if found not in seconds:
        return Remark(
            f"it returned {found!r}; expected one of {', '.join(map(repr, seconds))}.",
            cause="choose among the names in `algorithms`: not every library has every algorithm.",
        )
    fastest = min(seconds, key=lambda name: seconds[name])
    if seconds[found] <= seconds[fastest] * (1 + 1e-6):
        return None
    return Remark(
        f"it chose {found!r}, which takes {readable(seconds[found])}. {fastest!r} takes {readable(seconds[fastest])}.",
        tuple(f"{name:16} {readable(taken)}" for name, taken in sorted(seconds.items(), key=lambda item: item[1])),
        _cause_of_choice(question, found, fastest),
    )


def _no_name(question: Question, reply: Reply) -> Remark:
    returned = "None" if reply.returned_type == "NoneType" else f"a value of type {reply.returned_type}"
    if isinstance(reply.value, float):
        cause = "return the name of the algorithm, not its time: min(algorithms, key=…) gives a name."
    else:
        cause = "the last line of the function must return the name of one algorithm."
    return Remark(f"it returned {returned}; expected one of {', '.join(map(repr, question.seconds))}.", cause=cause)


def _cause_of_choice(question: Question, found: str, fastest: str) -> str:
    if question.seconds[found] == max(question.seconds.values()) and len(question.seconds) > 2:
        return "that is the slowest of all. Is it max where it should be min?"
    return (
        f"{_parts(question, found)}; {_parts(question, fastest)}. No fixed number of bytes is right on every cluster: "
        "predict the time of each, and take the least."
    )


def _parts(question: Question, algorithm: str) -> str:
    steps = steps_of(algorithm, question.nbytes, question.cluster)
    return (
        f"{algorithm} has {len(steps)} steps, whose latencies take {readable(latency_of(steps))}, and its bytes take "
        f"{readable(travel_of(steps))}"
    )
