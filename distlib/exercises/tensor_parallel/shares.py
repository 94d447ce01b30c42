"""Rules about layers that are cut over ranks: each reads, holds and keeps its share, and the values are one process's.

For cases of `tensor_parallel_cases`; `Whole` is what one process computes. Mistakes are values that usual ones give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from distlib.checks.errors import Signs
from distlib.checks.remark import Remark
from distlib.checks.rules.flat import EVERYBODY
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close, is_equal, untouched
from distlib.checks.seen import Seen
from distlib.checks.words import count, listed
from distlib.exercises.tensor_parallel.cases import Attention, Column, Plan, Whole

# fmt: off
UNDIVIDED = "raise a ValueError where the ranks do not divide what they share. On every rank, before anything is read."
COPY = "all_reduce works in place. Reduce a copy: total = tensor.clone(), then all_reduce(comm, total)."
READ = ("the whole lies in a file. Read a part of it: weight[start:stop] is a tensor. Of the whole only weight.shape "
        "is known.")
MODULE = "the class is a torch.nn.Module, and super().__init__() comes first in its __init__."
FUNCTION = "all_reduce is a function of the notebook: all_reduce(comm, tensor)."
RETURNS = ("backward returns the gradient of each argument of forward: a tensor of its shape, None for what is no "
           "tensor. all_reduce itself returns nothing.")
SIGNS: Signs = (
    *((sign, READ) for sign in ("not Stored", "'Stored'", "got Stored", "(Stored")),
    ("the output is a", "forward returns the output, a tensor. Is there a return? all_reduce itself returns nothing."),
    *((sign, MODULE) for sign in ("named_parameters", "Module.__init__() call")),
    *((sign, FUNCTION) for sign in
      ("has no 'all_reduce'", "comm as the first argument", "Default process group", "DistStoreError")),
    *((sign, RETURNS) for sign in ("number of gradients", "invalid gradient", "number of input gradients")),
    *((sign, COPY) for sign in ("inplace operation", "leaf Variable", "in-place operation")),
    ("'NoneType'", "all_reduce works in place and returns nothing; and a bias may be None: then there is none."),
    ("through the graph a second time", "is something kept from one call to the next, in a global or on the layer? "
     "Each forward pass computes everything anew, and reads its share anew where a function is handed the file."),
    ("tuple index out of range", "an input may have any number of dimensions, also a single one. The features are the "
     "last: x.shape[-1]."),
    ("shapes cannot be multiplied", "what is multiplied does not fit together. Which features has this rank: all, or "
     "its share?"),
    ("waits to", "some rank leaves out a message that others wait for. Every rank calls all_reduce, equally often and "
     "in the same order."),
)
KEPT_OUTSIDE = ("Is a share kept outside of the layer, in a global or on the class? There are other layers, with "
                "weights of their own.")
NO_GRADIENT = ("no gradient gets there. Is there a detach(), a .data or a copy on the way? Does each operator's "
               "backward return one? (all_reduce itself returns nothing.)")
Table = Callable[[Whole, str, int, int], Mistakes]  # "output", "input" or a stored tensor's name; rank; batch


@dataclass(frozen=True)
class Costs:
    """What is to be sent.

    Attributes:
        what: as a sentence: "One all-reduce of the output in each forward pass".
        nbytes, number: of all tensors that are reduced, together, and how many there are.
        more: the bytes of what a usual mistake reduces, or gathers, besides; and the words for it.
    """

    what: str
    nbytes: int
    number: int
    more: Sequence[tuple[int, str]]


def judged(
    seen: Seen, mistakes: Table, costs: Callable[[Whole], Costs], *, output: str, gradient: str
) -> Iterator[Remark | None]:
    """All rules of this file.

    Args:
        mistakes: the values that usual mistakes give.
        costs: what is to be sent.
        output, gradient: causes of wrong values where none of the mistakes fits.
    """
    yield from refuses(seen)
    if divides(seen.facts):
        whole = Whole(seen.case)
        yield from reads_its_share(seen, whole)
        yield from holds_its_share(seen, whole) if "held" in seen[0] else ()
        yield from leaves_its_shape(seen)
        yield from computes_as_one(seen, whole, mistakes, output, gradient)
        yield from leaves_its_input(seen)
        yield from reduces(seen, costs(whole))
        yield from keeps_little(seen, whole)


def signs(seen: Seen) -> Signs:
    """Words of errors and their causes, for a case."""
    return SIGNS if divides(seen.facts) else (("rror", UNDIVIDED), ("waits to", UNDIVIDED))


def divides(plan: Plan) -> bool:
    """Whether the ranks can have equal shares."""
    return plan.cut[0] % plan.ranks == 0


def refuses(seen: Seen) -> Iterator[Remark | None]:
    """Only a plan that does not divide is refused, and that on every rank."""
    size, what = seen.facts.cut
    for rank in seen.ranks:
        refused = seen[rank].get("refused")
        if refused is None and not divides(seen.facts):
            yield Remark(f"{seen.size} ranks can't have equal shares of {size} {what}, and rank {rank} goes on.",
                         cause=UNDIVIDED)
        if refused is not None and not divides(seen.facts):
            yield from (_reads_first(rank, name) for name, read in seen[rank]["read"].items() if read.any())
        if refused is not None and divides(seen.facts):
            yield Remark(f"rank {rank} raises a ValueError.", (f"ValueError: {refused}",),
                         f"{seen.size} ranks do divide {size} {what}. Is another number divided?")


def _reads_first(rank: int, name: str) -> Remark:
    return Remark(f"rank {rank} raises a ValueError, but reads a part of {name} before it.",
                  cause="what is read before is read for nothing. weight.shape and heads say at once whether the ranks "
                        "divide: look there first.")


def reads_its_share(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """Each rank reads its share of every stored tensor, all of it and nothing else."""
    for rank in seen.ranks:
        for name, tensor in whole.stored.items():
            read, own = seen[rank]["read"][name], torch.zeros(tensor.shape, dtype=torch.bool)
            own[whole.shares[rank].stored[name]] = True
            if not torch.equal(read, own):
                missing = f"this part is missing. {KEPT_OUTSIDE}"
                cause = ("that is the whole, more than a rank may ever hold." if read.all() else missing
                         if not read.any() else "every rank reads its own share, and all shares together are the "
                         "whole. Where does this one begin, where does it end, and is it rows or columns?")
                yield Remark(f"rank {rank} does not read its share of {name}, all of it and nothing else.",
                             (f"expected {described(own)}", f"found    {described(read)}"), cause)


def described(mask: torch.Tensor) -> str:
    """Elements in words: "rows 0 to 3", "columns 4 to 7", "entries 0 and 2", "nothing"."""
    if not mask.any() or mask.all():
        return "everything" if mask.all() else "nothing"
    if mask.dim() == 1:
        return f"entries {_runs(mask)}"
    rows, columns = mask.any(dim=1), mask.any(dim=0)
    parts = [f"rows {_runs(rows)}"] * (not rows.all()) + [f"columns {_runs(columns)}"] * (not columns.all())
    return ", of these ".join(parts) or "parts of all rows"


def _runs(mask: torch.Tensor) -> str:
    numbers = mask.nonzero().flatten().tolist()
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return " and ".join(f"{a} to {b}" if a < b else f"{a}" for a, b in zip(starts, ends, strict=True))


def holds_its_share(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """The parameters of a layer are the shares as they were read, and there is nothing besides."""
    for rank in seen.ranks:
        held = seen[rank]["held"]
        for name, tensor in whole.stored.items():
            index = whole.shares[rank].stored[name]
            share, other = tensor.detach()[index], seen.case.inputs[rank].get("other")
            hidden = [known for known, each in held.items() if known not in whole.stored and is_equal(each.data, share)]
            yield holds(f"on rank {rank} the parameter {name}", held.get(name), share, {
                "this is the transpose of the share. Keep it as it is stored: linear(x, weight) transposes.": share.t(),
                f"this is the share of the other layer. {KEPT_OUTSIDE}": other[name][index] if other else None,
            }, otherwise=f"the share is there, as {hidden[0]}. Whoever uses the layer looks for layer.{name}: keep "
                         f"it as self.{name}, or add a property {name}." if hidden else
                         f"it is the share, as it was read: self.{name} = torch.nn.Parameter({name}[…]).")
        for name in held.keys() - whole.stored.keys():
            yield Remark(f"rank {rank} also holds a tensor named {name}, of shape {list(held[name].shape)}.",
                         cause="a layer holds its shares in self.weight and self.bias, and nothing besides: least of "
                               "all what is put together from several ranks.")


def computes_as_one(
    seen: Seen, whole: Whole, mistakes: Table, output: str, gradient: str
) -> Iterator[Remark | None]:
    """Outputs and gradients are those of one process. Arguments as of `judged`."""
    places = [(rank, batch) for batch in range(len(whole.batches)) for rank in seen.ranks]
    names = [(rank, name) for rank in seen.ranks for name in whole.stored] if places else []

    def same(what: str, rank: int, batch: int, found: torch.Tensor | None, right: torch.Tensor) -> Remark | None:
        kind = {"output": "output", "input": "gradient of the input"}.get(what, f"gradient of its share of {what}")
        otherwise = output if what == "output" else gradient
        of_batch = f" of batch {batch + 1}" if len(whole.batches) > 1 and what not in whole.stored else ""
        return holds(f"on rank {rank} the {kind}{of_batch}", found, right,
                     lambda: {**mistakes(whole, what, rank, batch), **_reduced(whole, what),
                              **_of_other_batches(whole, what, rank, batch),
                              **_of_the_other_layer(seen, what, rank, batch),
                              "these are zeros: nothing got there.": torch.zeros_like(right)}, same=is_close,
                     otherwise=explain_factor(found, right) + otherwise if found is not None else
                     NO_GRADIENT + " Is the bias added on every rank?" * (what == "bias"))

    for rank, batch in places:
        right = whole.outputs[batch][whole.shares[rank].outputs]
        yield same("output", rank, batch, seen[rank]["outputs"][batch], right)
    for rank, batch in () if seen.facts.forward_only else places:
        right = gradient_of(whole.batches[batch])[whole.shares[rank].inputs]
        yield same("input", rank, batch, seen[rank]["input_gradients"][batch], right)
    for rank, name in () if seen.facts.forward_only else names:
        found, share = seen[rank]["gradients"][name], whole.shares[rank].stored[name]
        if found is not None and isinstance(seen.facts, Attention):  # the play collects it in a tensor like the whole
            found = found[share]
        yield same(name, rank, 0, found, gradient_of(whole.stored[name])[share])


def gradient_of(tensor: torch.Tensor) -> torch.Tensor:
    """The gradient of a tensor that has one."""
    assert tensor.grad is not None
    return tensor.grad


def _reduced(whole: Whole, name: str) -> Mistakes:
    shares = [gradient_of(whole.stored[name])[share.stored[name]] for share in whole.shares if name in whole.stored]
    if len(shares) < 2 or torch.equal(shares[0], shares[-1]):
        return {}
    total = torch.stack(shares).sum(0)
    return {"the ranks' gradients were added up, or averaged. They belong to different shares: each stays where it is.":
            [total, total / len(shares)]}


def _of_other_batches(whole: Whole, what: str, rank: int, batch: int) -> Mistakes:
    share, others = whole.shares[rank], [k for k in range(len(whole.batches)) if k != batch]
    if what in whole.stored:
        found = [whole.gradient_of_one_input(what, k) for k in range(len(whole.batches) if others else 0)]
        return {"this is what the input of one batch gives for all of them. Each forward pass has an input of its "
                "own: is it kept in one place, on the layer or on a class, until the next one comes?":
                [each[share.stored[what]] for each in found if each is not None]}
    right = {"output": lambda k: whole.outputs[k][share.outputs],
             "input": lambda k: gradient_of(whole.batches[k])[share.inputs]}.get(what)
    return {"it belongs to another batch. Is something kept from one forward pass to the next?":
            [right(k) for k in others]} if right else {}


def _of_the_other_layer(seen: Seen, what: str, rank: int, batch: int) -> Mistakes:
    if not seen.facts.next_to:
        return {}
    def given_by(names: Sequence[str]) -> torch.Tensor:
        """What comes of the other layer's tensors of these names, and of this one's else."""
        other = Whole(replace(seen.case, inputs=[{**given, **{name: given["other"][name] for name in names}}
                                                 for given in seen.case.inputs]))
        share = other.shares[rank]
        if what == "output":
            return other.outputs[batch][share.outputs]
        if what == "input":
            return gradient_of(other.batches[batch])[share.inputs]
        return gradient_of(other.stored[what])[share.stored[what]]

    names = list(seen.facts.shapes)
    return {f"this is what the other layer would give. {KEPT_OUTSIDE}":
            [given_by(some) for some in (names, *([name] for name in names))]}


def leaves_its_shape(seen: Seen) -> Iterator[Remark | None]:
    """The inputs have the shapes that they had: else nothing about their gradients can be said."""
    for rank in seen.ranks:
        for found, before in zip(seen[rank]["batches"], seen.case.inputs[rank]["batches"], strict=True):
            if found.shape != before.shape:
                yield Remark(f"on rank {rank} the input has another shape afterwards: {list(found.shape)}, and before "
                             f"{list(before.shape)}.",
                             cause="it belongs to the caller, and others may still need it. x.reshape(…) is another "
                                   "tensor; x.data = … and functions with a _ at the end change x itself.")


NOT_YOURS = ("it belongs to the caller, and others may still need it. all_reduce writes into its tensor: reduce a "
             "copy, tensor.clone().")


def leaves_its_input(seen: Seen, cause: str = NOT_YOURS) -> Iterator[Remark | None]:
    """The inputs, and the gradients of the outputs, are as they were."""
    for rank in seen.ranks:
        for name, what in (("batches", "input"), ("arriving", "gradient of the output")):
            for found, before in zip(seen[rank][name], seen.case.inputs[rank][name], strict=True):
                yield untouched(f"on rank {rank} the {what}", found, before, cause)


def reduces(seen: Seen, costs: Costs) -> Iterator[Remark | None]:
    """The messages are those of these all-reduces, and no others."""
    ring = 2 * (seen.size - 1)
    sent, due = seen.trace.bytes_sent, ring * costs.nbytes
    if sum(sent) != due:
        more = sum(sent) - due
        causes = [words for size, words in costs.more if more in (ring * size, ring * size // 2)]  # reduced or gathered
        causes = [EVERYBODY] if 2 * sum(sent) == seen.size * due else causes
        yield Remark(f"the values are right, but {count(sum(sent), 'byte')} were sent. {costs.what} sends {due:,} in "
                     "all.", (f"bytes sent by each rank: {listed(sent)}",),
                     " Or: ".join(causes[:2]) or "send that, and nothing else.")
    for rank, found in enumerate(seen.trace.messages_sent):
        if found > ring * costs.number:
            yield Remark(f"the values are right, but rank {rank} sent {count(found, 'message')}. {costs.what} takes at "
                         f"most {ring * costs.number}.", cause="every message pays for its latency. One call of "
                         "all_reduce takes a tensor of any shape.")


def keeps_little(seen: Seen, whole: Whole) -> Iterator[Remark | None]:
    """No tensor that is kept for the backward pass is a whole weight, or as large as the largest one.

    On up to three ranks queries and keys, say, may together have the shape of the whole weight of attention's output.
    """
    weights = [stored for stored in whole.stored.values() if stored.dim() > 1]
    for rank in seen.ranks if seen.size > 1 else ():
        kept = seen[rank]["kept"] if seen.size > 3 or isinstance(seen.facts, Column) else []
        found = [f"of shape {shape}" for shape in kept if sorted(shape) in [sorted(weight.shape) for weight in weights]]
        if (largest := seen[rank]["largest"]) >= max(weight.numel() for weight in weights):
            found.append(f"of {largest:,} elements")
        if found:
            yield Remark(f"the values are right, but rank {rank} keeps a tensor {found[0]} for its backward pass: as "
                         "large as a whole weight.",
                         cause="compute with the share as it is. Filled up with zeros, it is as large as the whole.")
# fmt: on
