"""Exercise 17: the diagnosis of what four ranks have printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from distlib.checks.case import Case
from distlib.checks.formatting import count
from distlib.checks.rules.returns import called, shown
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.hang_clinic.printed_output import CAUSES, incident

say = Sentences(__file__)
SHOWN_LINES = 9  # of the output of a rank
SIGNS = {  # how a cause is known
    "raised": say("is_raised"),
    "finished": say("is_finished"),
    "killed": say("is_killed"),
    "slow": say("is_slow"),
    "skipped": say("is_skipped"),
    "extra": say("is_extra"),
    "shape": say("is_shape"),
    "dtype": say("is_dtype"),
}


@task("outputs")
def check_diagnose(draw: Draw, *, each: int = 1, long: int = 0, causes: Sequence[str] = CAUSES) -> Iterator[Case]:
    """`function(outputs)` returns rank, line and cause.

    each: how many drawn incidents there are of each cause.
    long: how many of these have more calls in a step.
    """
    drawn = [(cause, k % 2 == 1, k < long) for cause in causes for k in range(each)]
    for number, (cause, of_a_connection, is_long) in enumerate(draw.sample(drawn, len(drawn)), 1):
        found = incident(draw, cause, of_a_connection=of_a_connection, is_long=is_long)
        given = [list(lines) for lines in found.outputs]
        title = f"on incident {number}, {count(sum(map(len, given)), 'line')} of output"
        printed = tuple(line for rank, lines in enumerate(given) for line in _last_lines(rank, lines))
        yield replace(called(given, facts=found), title=title, shows=("This was printed:", *printed))


@check_diagnose.judge
def _(seen: Seen) -> Remarks:
    found, right = seen[0], seen.facts
    _, *printed = seen.case.shows
    if not isinstance(found, tuple | list) or len(found) != 3:
        yield say.remark("three_values", found=shown(found))
        return
    rank, line, cause = found
    if rank != right.rank:
        yield say.remark("wrong_rank", *printed, found=shown(rank), right=right.rank, cause=SIGNS[right.cause])
    if line != right.line:
        why = "line_of_the_others" if line == right.others_line else "line_last_seen"
        yield say.remark("wrong_line", *printed, rank=rank, found=shown(line), right=right.line, cause=say(why))
    if cause not in CAUSES:
        yield say.remark("no_cause", found=shown(cause), causes=", ".join(CAUSES))
    if cause != right.cause:
        yield say.remark("wrong_cause", *printed, found=cause, right=right.cause, cause=SIGNS[right.cause])


def _last_lines(rank: int, lines: Sequence[str]) -> list[str]:
    more = ["  …"] if len(lines) > SHOWN_LINES else []
    return [f"rank {rank}:", *more, *(f"  {line}" for line in lines[-SHOWN_LINES:])]
