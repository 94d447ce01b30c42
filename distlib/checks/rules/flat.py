"""Rules about one all-reduce of one flat tensor, which holds many tensors: `all_reduce` is supplied by the check.

flat tensor of n bytes on N ranks, as a ring     2(N-1) messages from each rank, 2(N-1)·n bytes in all

Every all-reduce of the course takes that many bytes: the one through a master, the ring, trees, halving and doubling.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from distlib.checks.errors import Signs
from distlib.checks.remark import Remark
from distlib.checks.seen import Seen
from distlib.checks.words import count

# fmt: off
TOGETHER: Signs = (
    *((sign, "flatten each tensor first: torch.cat([tensor.reshape(-1) for tensor in tensors]).")
      for sign in ("must have same number of dimensions", "Sizes of tensors must match", "stack expects each tensor")),
    ("is invalid for input of size", "each piece goes back to the tensor that it came from: split by their numel(), "
     "and zip in the same order."),
    ("must match the size of tensor", "is a flat piece copied into a tensor of another shape? Use piece.view(shape)."),
    ("grad_dtype", "a gradient has the dtype of its parameter. So has the flat tensor: torch.cat and zeros_like keep "
     "it."),
    ("expected a torch.Tensor, got a list", "all_reduce takes one tensor. torch.cat makes a flat one of many."),
    ("required positional argument: 'tensor'", "first comm, then the tensor: all_reduce(comm, tensor)."),
)
SIGNS: Signs = (
    *((sign, "all_reduce is a function of the notebook: all_reduce(comm, tensor).")
      for sign in ("has no 'all_reduce'", "Default process group", "DistStoreError")),
    *((sign, "first comm, then the tensor: all_reduce(comm, tensor), all_reduce(comm, tensor, op=ReduceOp.AVG).")
      for sign in ("comm as the first argument", "got a ReduceOp", "is not a valid ReduceOp")),
    *((f"AttributeError: {name}", "the operation that averages is ReduceOp.AVG.") for name in ("MEAN", "AVERAGE")),
    ("leaf Variable", "tensors that need a gradient are changed in place only under torch.no_grad()."),
    *TOGETHER,
)
NARROW = "are numbers sent in a narrower dtype, such as float32? Keep the dtype: torch.cat and zeros_like do."
TWICE = "some things are sent more than once, or in a wider dtype."
EVERYBODY = "every rank sends everything to every other rank. Add up first, as the ring does."


def one_all_reduce(
    seen: Seen, nbytes: int, what: str, *, right: str, rounds: int | None = None, also: Collection[int] = (),
    mistakes: Mapping[int, str] | None = None, otherwise: str = TWICE,
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
    number, each = rounds or 1, "" if rounds is None else " in each round"
    messages = 2 * (seen.size - 1)
    sent, due = sum(seen.trace.bytes_sent), messages * number * nbytes
    if sent not in (due, *(messages * number * size for size in also)):
        table = {seen.size * (seen.size - 1) * number * nbytes: EVERYBODY}
        table |= {messages * number * size: words for size, words in (mistakes or {}).items()}
        text = f"One all-reduce of {what}{each}, {count(nbytes, 'byte')}, sends {due:,} in all."
        yield Remark(f"{right} are right, but {count(sent, 'byte')} {'was' if sent == 1 else 'were'} sent. {text}",
                     cause=table.get(sent, otherwise if sent > due else NARROW))
    for rank, found in enumerate(seen.trace.messages_sent):
        if found > messages * number:
            yield Remark(
                f"{right} are right, but rank {rank} sent {count(found, 'message')}. One all-reduce of {what} together "
                f"takes {messages}{each}.",
                cause=f"every message pays for its latency, and so does every further all-reduce. Put {what} into one "
                      "flat tensor first.")
# fmt: on
