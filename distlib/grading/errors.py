"""What to say when the student's function did not get to its end: deadlock, mismatch, exception, time limit.

The error of the world names the line and the ranks. Added here: what it means in this exercise.
"""

from __future__ import annotations

from collections.abc import Sequence

from distlib.checks.remark import Remark
from distlib.grading.case import Case, dtype_name
from distlib.worlds.diagnosis import (
    DeadlockError,
    MessageMismatch,
    PeerLost,
    RankError,
    RunTimeout,
    TooMuchOutput,
    UnreceivedMessage,
)

_LEADS: tuple[tuple[type[Exception], str], ...] = (
    (DeadlockError, "ranks wait for each other, and would wait forever."),
    (MessageMismatch, "a message does not fit."),
    (PeerLost, "a rank's process ended in the middle."),
    (RunTimeout, "it did not finish in time. (It should take milliseconds.)"),
    (UnreceivedMessage, "a message was sent that nobody received."),
    (TooMuchOutput, "it printed too much and was stopped."),
    (RankError, "it stopped with an error."),
)


def explain_error(case: Case | None, error: RankError | TypeError, causes: Sequence[tuple[str, str]] = ()) -> Remark:
    """The remark about a run that ended with `error`.

    Args:
        case: None for a function that does not work on one tensor.
        causes: words of an error and what usually causes it, in this exercise; they come before those known here.
    """
    text = str(error)
    if "NotImplementedError" in text:
        return Remark(
            "it is not written yet: it raises NotImplementedError.",
            cause="the line `raise NotImplementedError()` is still there. Put your code in its place.",
        )
    lead = next((lead for kind, lead in _LEADS if isinstance(error, kind)), "it can't be sent to the ranks.")
    return Remark(lead, tuple(text.splitlines()), _cause(case, error, text, causes))


def _cause(case: Case | None, error: Exception, text: str, causes: Sequence[tuple[str, str]]) -> str:
    for sign, cause in (*causes, *_SIGNS, *(_SIGNS_OF_CHUNKS if case is not None else ())):
        if sign in text:
            return cause
    if case is not None and isinstance(error, MessageMismatch):
        return _mismatch_cause(case, text)
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), "")


_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (RunTimeout, "a loop whose condition never becomes false. The line named is where the rank was."),
    (TooMuchOutput, "a print in a loop over elements. Print once a step, or only on rank 0."),
)
_SIGNS = (
    (
        "exited with code",
        "exit() or os._exit() in your function. Just return: the process belongs to the world.",
    ),
    (
        "is not there while your own function is graded",
        "a library function does the work. The exercise is to write it with the communicator's messages, or with your "
        "own arithmetic.",
    ),
    (
        "view size is not compatible",
        "view(-1) needs a tensor whose memory is contiguous, and this one's is not. Use reshape(-1), which copies "
        "where it must, and at the end write the copy back: tensor.copy_(flat.view(tensor.shape)).",
    ),
    *(
        (sign, "torch.distributed is not set up on these ranks, on purpose: write the algorithm with comm.")
        for sign in ("Default process group has not been initialized", "DistStoreError")
    ),
    (
        "is not defined",
        "your function runs in another process and takes with it what its cell has defined. Run all cells above, in "
        "order; import what it needs.",
    ),
    (
        "division by zero",
        "something is 0 here, such as world_size - 1 or a logarithm with one rank.",
    ),
)
_SIGNS_OF_CHUNKS = (
    (
        "is invalid for input of size",
        "view(world_size, -1) needs a length that divides by the number of ranks. torch.tensor_split cuts any length.",
    ),
    (
        "index out of range",
        "there is one chunk for each rank, and the number of ranks is not fixed. Take the number of a chunk or of a "
        "rank % comm.world_size.",
    ),
    (
        "share memory",
        "in one step a chunk leaves and another one comes in. Receive into a separate buffer "
        "(torch.empty_like(chunk)), then add it or copy it.",
    ),
)


_NO_SUCH_PARTNER = {
    "tree": "not every number of ranks is a power of two, so a rank may have fewer partners. Compare with "
    "comm.world_size before you send to, or receive from, rank + distance.",
    "halving_doubling": "rank ^ distance is a rank only where the number of ranks is a power of two. With N ranks, and "
    "P the largest power of two up to N, ranks P and up first send their tensor to rank - P, and get the sum from "
    "there at the end.",
    "grid": "rank r is in row r // columns and column r % columns. Its neighbors in the row have the same row and "
    "(column + 1) % columns and (column - 1) % columns; those in the column are `columns` ranks apart.",
}


def _mismatch_cause(case: Case, text: str) -> str:
    if case.world_size == 1 and case.algorithm:
        return "with one rank there is nobody to talk to: its tensor is the result already."
    if case.world_size == 1:
        return (
            "with one rank there is nobody to talk to: its tensor is the result already. A loop over world_size - 1 "
            "steps does the right thing by itself."
        )
    if "wants to" in text and case.algorithm:
        return _NO_SUCH_PARTNER[case.algorithm]
    if "wants to" in text and case.root is not None:
        return (
            "there are only the ranks 0 to world_size - 1, and no rank sends to itself. Leave out "
            "the root where a loop "
            "goes over all others, and take ranks % comm.world_size."
        )
    if "wants to" in text:
        return (
            "the neighbors in a ring are (comm.rank + 1) % comm.world_size and (comm.rank - 1) % comm.world_size. Also "
            "with 3 or 5 ranks there are only the ranks 0 to world_size - 1."
        )
    if dtype_name(case.dtype) != "float32" and "float32" in text:
        return (
            "torch.empty(n) and torch.zeros(n) make float32. A buffer for what comes in needs the tensor's dtype: "
            "torch.empty_like(chunk)."
        )
    parts = len(case.chunk_lengths)
    if case.algorithm == "tree":
        return "in a tree each message is the whole tensor: receive into torch.empty_like(tensor), or into the tensor."
    if case.length % parts and case.collective not in ("shift", "broadcast", "gather", "reduce"):
        lengths = ", ".join(str(length) for length in case.chunk_lengths)
        return (
            f"{case.length} does not divide by {parts}: the chunks have {lengths} elements. The buffer for "
            "what comes in must be as long as the chunk that comes, not as the one that leaves."
        )
    return "the receiver's buffer must have as many elements as the message, and the same dtype."
