"""Rules about one all-reduce of one flat tensor, which holds many tensors: `all_reduce` is supplied by the check.

flat tensor of n bytes on N ranks, as a ring     2(N-1) messages from each rank, 2(N-1)·n bytes in all

Every all-reduce of the course takes that many bytes: the one through a master, the ring, trees, halving and doubling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences

say = Sentences(__file__)
TOGETHER: Signs = (
    ("must have same number of dimensions", say("flatten")),
    ("Sizes of tensors must match", say("flatten")),
    ("stack expects each tensor", say("flatten")),
    ("is invalid for input of size", say("pieces")),
    ("must match the size of tensor", say("other_shape")),
    ("grad_dtype", say("dtype")),
    ("expected a torch.Tensor, got a list", say("list")),
    ("required positional argument: 'tensor'", say("tensor_missing")),
)
SIGNS: Signs = (
    ("has no 'all_reduce'", say("all_reduce")),
    ("Default process group", say("all_reduce")),
    ("DistStoreError", say("all_reduce")),
    ("comm as the first argument", say("arguments")),
    ("got a ReduceOp", say("arguments")),
    ("is not a valid ReduceOp", say("arguments")),
    ("AttributeError: MEAN", say("operation")),
    ("AttributeError: AVERAGE", say("operation")),
    ("leaf Variable", say("no_grad")),
    *TOGETHER,
)
TWICE, EVERYBODY = say("twice"), say("everybody")


def one_all_reduce(
    seen: Seen,
    nbytes: int,
    what: str,
    *,
    right: str,
    rounds: int | None = None,
    also: Collection[int] = (),
    mistakes: Mapping[int, str] | None = None,
    otherwise: str = TWICE,
) -> Iterator[Remark | None]:
    """The messages are those of one all-reduce, of all tensors together.

    Args:
        nbytes: of the flat tensor.
        what: what is in it: "all gradients".
        right: what is right already: "the gradients".
        rounds: how many rounds there were, with one such all-reduce in each; None if the exercise knows no rounds.
        also: other sizes of the flat tensor that will do.
        mistakes: from a wrong size of the flat tensor to the words for the mistake that gives it.
        otherwise: the cause of more bytes than there should be, where none of these fits.
    """
    number, words = rounds or 1, {"right": right, "what": what}
    messages = 2 * (seen.size - 1)
    sent, due = sum(seen.trace.bytes_sent), messages * number * nbytes
    if sent not in (due, *(messages * number * size for size in also)):
        table = {seen.size * (seen.size - 1) * number * nbytes: EVERYBODY}
        table |= {messages * number * size: cause for size, cause in (mistakes or {}).items()}
        were_sent = f"{count(sent, 'byte')} {'was' if sent == 1 else 'were'}"
        cause = table.get(sent, otherwise if sent > due else "")
        entry = "sent" if rounds is None else "sent_in_rounds"
        yield say.remark(entry, **words, sent=were_sent, nbytes=count(nbytes, "byte"), due=due, cause=cause)
    for rank, found in enumerate(seen.trace.messages_sent):
        if found > messages * number:
            entry = "messages" if rounds is None else "messages_in_rounds"
            yield say.remark(entry, **words, rank=rank, found=count(found, "message"), messages=messages)
