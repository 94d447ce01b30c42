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
from distlib.worlds.diagnosis import (
    DeadlockError,
    MessageMismatch,
    PeerLost,
    RankError,
    RunTimeout,
    TooMuchOutput,
    UnreceivedMessage,
)

Signs = Sequence[tuple[str, str]]  # words of an error (empty: of none), and its usual cause

_LEADS: tuple[tuple[type[Exception], str], ...] = (
    (DeadlockError, "ranks wait for each other, and would wait forever."),
    (MessageMismatch, "a message does not fit."),
    (PeerLost, "a rank's process ended in the middle."),
    (RunTimeout, "it did not finish in time. (It should take milliseconds.)"),
    (UnreceivedMessage, "a message was sent that nobody received."),
    (TooMuchOutput, "it printed too much and was stopped."),
    (RankError, "it stopped with an error."),
)


def explain_error(error: RankError | TypeError, signs: Signs = (), *, has_ranks: bool = True) -> Remark:
    """The remark about a run that ended with `error`.

    Args:
        signs: of the exercise; they come before those known here.
        has_ranks: whether the function has a communicator. Without one nothing is said of a rank.
    """
    text = without_our_files(str(error))
    text = (
        text if has_ranks else re.sub(r"\b(?:rank 0|a rank)(?='s| raised| was| ended| sent| printed| is\b)", "it", text)
    )
    if re.search("NotImplementedError(?!:)", text):  # with a colon it is one of torch's
        return Remark(
            "it is not written yet: it raises NotImplementedError.",
            cause="the line `raise NotImplementedError()` is still there. Put your code in its place, and run "
            "the cell again.",
        )
    lead = next((lead for kind, lead in _LEADS if isinstance(error, kind)), "it can't be sent to the ranks.")
    return Remark(lead, tuple(text.splitlines()), _cause(error, text, signs))


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


def alone(text: str, otherwise: str = "") -> str:
    """The cause of a message that one rank alone wants to send or receive. `otherwise`: more, if it is to itself."""
    nobody = "with one rank there is nobody to talk to: its tensor is the result already."
    fixed = (
        "The number of ranks is comm.world_size. Is another number written into your code, or is `% comm.world_size` "
        "missing?"
    )
    return f"{nobody} {fixed if 'but the ranks are' in text else otherwise}".rstrip()


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
    (
        RunTimeout,
        "a loop whose condition never becomes false; or a part of torch that takes seconds to be imported, such "
        "as its optimizers and its DDP. The line named is where the rank was.",
    ),
    (TooMuchOutput, "a print in a loop over elements. Print once a step, or only on rank 0."),
)
# fmt: off
_SIGNS = (
    ("exited with code", "exit() or os._exit() in your function. Just return: the process belongs to the world."),
    ("is not there while your own function is graded",
     "a library function does the work. The exercise is to write it with the communicator's messages, or with your own "
     "arithmetic."),
    ("view size is not compatible",
     "view(-1) needs a tensor whose memory is contiguous, and this one's is not. Use reshape(-1), which copies where "
     "it must, and at the end write the copy back: tensor.copy_(flat.view(tensor.shape))."),
    ("Default process group has not been initialized",
     "torch.distributed is not set up on these ranks, on purpose: write the algorithm with comm."),
    ("DistStoreError", "torch.distributed is not set up on these ranks, on purpose: write the algorithm with comm."),
    ("name 'world_size' is not", "it belongs to the communicator: comm.world_size."),
    ("name 'rank' is not", "it belongs to the communicator: comm.rank."),
    ("name 'dist' is not", "torch.distributed is not set up on these ranks, on purpose: write it with comm."),
    ("'int' object is not callable",
     "a number is called like a function. comm.rank and comm.world_size are numbers: write them without parentheses."),
    ("maximum recursion depth", "a function calls itself and never comes to an end."),
    ("Did you mean", "is the name spelled right? Python knows one that is nearly the same."),
    ("is not defined",
     "no cell that has run defines this name. Import or define it in the cell of your function: what you add to a "
     "locked cell is lost when your work is graded."),
    ("where it is not associated with a value",
     "no line that gives it a value has run on this rank. Does it get one only inside an if, in a loop that does not "
     "run here, or on other ranks?"),
    ("'tuple' object does not support item assignment",
     "torch.tensor_split returns a tuple, whose entries can't be replaced; and `chunks[i] += x` also tries to put the "
     "sum back. Write chunks[i].add_(x), or chunk = chunks[i] and then chunk += x."),
    ("expected a torch.Tensor to receive, got int",
     "recv and exchange write what arrives into a tensor that you hand over; what recv returns is the sender's rank."),
    ("in argument 0, but got int",
     "what recv returns is the sender's rank. What arrives is in the tensor that you hand over."),
    ("a leaf Variable that requires grad is being used in an in-place operation",
     "torch records what is done to a parameter, and refuses this. parameter.data is the same memory without that "
     "record."),
    ("has no attribute 'grad'", "a model has no gradient, its parameters have: parameter.grad of each."),
    ("iterable, not method", "a method is called with parentheses: model.parameters()."),
    ("'method' object", "a method is called with parentheses: model.parameters()."),
    ("raised KeyError",
     "a dict has no entry under this key. Is it put in before, and under the same key? (What another rank puts into a "
     "dict of its own is not there: ranks share no memory.)"),
    ("too many indices", "the tensor has fewer dimensions than the index has numbers: look at its shape."),
    ("index out of range", "the first of n entries has the index 0, and the last one n - 1."),
    ("attempting to assign a gradient of size",
     "a gradient has the shape of its parameter: piece.view(parameter.shape) gives a flat piece this shape."),
    ("raised AssertionError", "an assert of your own does not hold on this rank."),
    ("division by zero", "something is 0 here. With one rank, world_size - 1 is."),
)
# fmt: on
