"""What to say when the student's function did not get to its end: deadlock, mismatch, exception, time limit.

The error of the world names the line and the ranks. Added here: what usually causes it. An exercise knows more causes
than this file (`Task(errors=…)`); its own come first. Taken out: files of the library, which tell a student nothing;
and "rank 0", where the function has no communicator.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from distlib.checks.plays import all_plays
from distlib.checks.remark import Remark
from distlib.checks.sentences import Sentences
from distlib.worlds.diagnosis import (
    DeadlockError,
    MessageMismatch,
    PeerLost,
    RankError,
    RunTimeout,
    TooMuchOutput,
    UnreceivedMessage,
)

say = Sentences(__file__)
Signs = Sequence[tuple[str, str]]  # words of an error (empty: of none), and its usual cause

_LEADS: tuple[tuple[type[Exception], str], ...] = (
    (DeadlockError, say("deadlock")),
    (MessageMismatch, say("mismatch")),
    (PeerLost, say("peer_lost")),
    (RunTimeout, say("timeout")),
    (UnreceivedMessage, say("unreceived")),
    (TooMuchOutput, say("too_much_output")),
    (RankError, say("rank_error")),
)


def explain_error(error: RankError | TypeError, signs: Signs = (), *, has_ranks: bool = True) -> Remark:
    """The remark about a run that ended with `error`.

    Args:
        signs: of the exercise; they come before those known here.
        has_ranks: whether the function has a communicator. Without one nothing is said of a rank.
    """
    text = without_our_files(str(error))
    if not has_ranks:
        text = re.sub(r"\b(?:rank 0|a rank)(?='s| raised| was| ended| sent| printed| is\b)", "it", text)
    if re.search(r"NotImplementedError(?!: ?\S)", text):  # with words behind a colon it is one of torch's
        return say.remark("not_written")
    lead = next((lead for kind, lead in _LEADS if isinstance(error, kind)), say("not_sent"))
    cause = _cause(error, text, signs)
    if has_ranks and cause == say("key"):
        cause = f"{cause} {say('no_shared_memory')}"
    return Remark(lead, tuple(text.splitlines()), cause)


def without_our_files(text: str) -> str:
    """A text without the paths of installed packages, and of a traceback only the lines outside of them."""
    text = re.sub(
        r'^[ \t]*File "[^"\n]*/(?:distlib|site-packages)/[^"\n]*", line \d+.*\n(?:(?![ \t]*File ")[ \t]+\S.*\n?)*',
        "",
        text,
        flags=re.M,
    )
    text = re.sub(r"[^\s\"'(]*/distlib/[^\s\"')]*", "the test", text)
    text = re.sub(r"[^\s\"'(]*/site-packages/(\w+)[^\s\"')]*", r"\1", text)
    return re.sub(rf"(?<!\w)(?:{_plays()})\.py, line \d+", "the test", text)


@cache
def _plays() -> str:
    return "|".join(sorted({path.stem for path in all_plays().values()}))


def alone(text: str) -> str:
    """The cause of a message that one rank alone wants to send or receive, to itself or to one that is not there."""
    return f"{say('alone')} {say('number_of_ranks')}" if "but the ranks are" in text else say("alone")


def same_partner(text: str) -> str:
    """The words of a deadlock that show a rank to send to another one and to receive from the same; empty: none."""
    found = re.search(r"to rank (\d+) and waits to receive [^\n]* from rank \1\b", text)
    return found[0] if found else ""


def _cause(error: Exception, text: str, signs: Signs) -> str:
    for sign, cause in (*signs, *_SIGNS):
        if sign and sign in text:
            return cause
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "")


_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (RunTimeout, say("endless")),
    (TooMuchOutput, say("print_in_loop")),
)
_SIGNS: Signs = (
    ("exited with code", say("exited")),
    ("is not there while your own function is graded", say("library")),
    ("view size is not compatible", say("not_contiguous")),
    ("Default process group has not been initialized", say("no_process_group")),
    ("DistStoreError", say("no_process_group")),
    ("name 'world_size' is not", say("name_world_size")),
    ("name 'rank' is not", say("name_rank")),
    ("name 'dist' is not", say("name_dist")),
    ("'int' object is not callable", say("number_called")),
    ("maximum recursion depth", say("recursion")),
    ("Did you mean", say("misspelled")),
    ("is not defined", say("not_defined")),
    ("where it is not associated with a value", say("no_value")),
    ("'tuple' object does not support item assignment", say("tuple_entry")),
    ("expected a torch.Tensor to receive, got int", say("nothing_to_receive_into")),
    ("in argument 0, but got int", say("sender_taken")),
    ("a leaf Variable that requires grad is being used in an in-place operation", say("leaf_in_place")),
    ("has no attribute 'grad'", say("grad_of_model")),
    ("iterable, not method", say("method")),
    ("'method' object", say("method")),
    ("raised KeyError", say("key")),
    ("too many indices", say("too_many_indices")),
    ("index out of range", say("index_out_of_range")),
    ("attempting to assign a gradient of size", say("flat_gradient")),
    ("raised AssertionError", say("assertion")),
    ("division by zero", say("division")),
)
