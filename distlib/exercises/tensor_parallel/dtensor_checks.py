"""Exercise 10, with torch's own: which parameters are cut, values of one process, and two all-reduces a block and pass.

The model is `dtensor_plays.Transformer`. A rank has of q, k, v, up and gate some of the output features, of out and
down some of the input features, and all of everything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from distlib.checks.case import Case
from distlib.checks.errors import Signs
from distlib.checks.formatting import count
from distlib.checks.rules.torch_messages import bytes_by_kind
from distlib.checks.rules.values import Mistakes, explain_factor, holds, is_close
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.task import Draw, Remarks, task
from distlib.exercises.tensor_parallel.dtensor_plays import Transformer, made, one_pass

say = Sentences(__file__)
COLUMN, ROW = ("q", "k", "v", "up", "gate"), ("out", "down")
SET_UP = {"scatter", "broadcast"}  # how torch hands out weights that are cut
SIGNS: Signs = (
    ("desired module inputs", say("layouts")),
    ("for parallelize_plan", say("arguments")),
    ("CUDA", say("mesh")),
    ("'int' object is not iterable", say("mesh")),
    ("esh", say("mesh")),
    ("Dimension out of range", say("mesh")),  # of the mesh, for a rank that is not in it
    ("waits", say("waits")),
)


@dataclass(frozen=True)
class Sizes:
    """Of a `Transformer`, where its arguments are explained."""

    tokens: int
    blocks: int
    heads: int
    head_size: int
    hidden: int
    gated: bool = False
    bias: bool = True

    @property
    def width(self) -> int:
        """The features between the blocks."""
        return self.heads * self.head_size


@dataclass(frozen=True)
class CutModel:
    """A case: a transformer that is cut over ranks, and one pass.

    Attributes:
        ranks: how many; they divide heads and hidden features.
        sizes: of the model.
        batch: sequences, and the length of each.
        forward_only: whether there is no backward pass.
    """

    ranks: int
    sizes: Sizes
    batch: tuple[int, int] = (2, 3)
    forward_only: bool = False

    @property
    def title(self) -> str:
        """Goes on after the student's function."""
        s = self.sizes
        model = f"{count(s.blocks, 'block')}, width {s.width}, {count(s.heads, 'head')}, {s.hidden} hidden features"
        details = ", gated" * s.gated + ", no bias" * (not s.bias) + ", forward only" * self.forward_only
        return f"on {count(self.ranks, 'rank')}, {model}{details}"

    @property
    def due(self) -> int:
        """The bytes of all-reduces, all ranks together: two in each block and direction."""
        passes = 1 if self.forward_only else 2
        return 2 * passes * self.sizes.blocks * self.one

    @property
    def one(self) -> int:
        """The bytes of one all-reduce of what passes between the blocks, all ranks together."""
        return 2 * (self.ranks - 1) * self.batch[0] * self.batch[1] * self.sizes.width * 8


def drawn_cut(draw: Draw, ranks: int) -> CutModel:
    """A case of which everything is drawn: 1 to 4 blocks, 1 to 3 heads on each rank."""
    heads, head_size, own = draw.randint(1, 3), draw.randint(1, 4), draw.randint(1, 5)
    gated, bias = draw.random() < 0.5, draw.random() < 0.7
    sizes = Sizes(draw.randint(4, 9), draw.randint(1, 4), ranks * heads, head_size, ranks * own, gated, bias)
    return CutModel(ranks, sizes, (draw.randint(1, 3), draw.randint(1, 4)))


@task("model", errors=SIGNS, seconds=10.0)
def check_parallelize(draw: Draw, *, cuts: Sequence[CutModel], drawn: Sequence[int] = ()) -> Iterator[Case]:
    """`function(model)`: cuts a transformer over all ranks, in place, by torch's DTensor. `drawn`: ranks of more."""
    for cut in (*cuts, *(drawn_cut(draw, ranks) for ranks in drawn)):
        yield _case(draw, cut)


def _case(draw: Draw, cut: CutModel) -> Case:
    s = cut.sizes
    shapes = {name: each.shape for name, each in Transformer(**asdict(s)).state_dict().items()}
    weights = {name: draw.normal(shape) / shape[-1] ** 0.5 for name, shape in shapes.items()}
    batch = torch.tensor([[draw.randrange(s.tokens) for _ in range(cut.batch[1])] for _ in range(cut.batch[0])])
    arriving = None if cut.forward_only else draw.normal((*cut.batch, s.tokens))
    given = {"sizes": asdict(s), "weights": weights, "batch": batch, "arriving": arriving}
    return Case(cut.title, one_pass, [given] * cut.ranks, cut)


@check_parallelize.judge
def _(seen: Seen) -> Remarks:
    whole = _Uncut(seen.case.inputs[0])
    for rank in seen.ranks:
        yield from _is_cut(seen, rank, whole)
    yield from _passes(seen)
    for rank in seen.ranks:
        yield from _computes_as_one(seen, rank, whole)
    yield from _sends(seen, whole)


class _Uncut:
    """What one process computes with the whole model.

    Attributes:
        output: of the model.
        parameters: by name, with their gradients.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        model = made(given["sizes"], given["weights"])
        output, self.parameters = model(given["batch"]), dict(model.named_parameters())
        if given["arriving"] is not None:
            output.backward(given["arriving"])
        self.output, self._given = output.detach(), given

    def biased(self, ranks: int) -> torch.Tensor:
        """The output if each of this many ranks adds the biases of out and down to its part of the sum."""
        factors = {name: ranks if _is_row_bias(name) else 1 for name in self._given["weights"]}
        weights = {name: factors[name] * weight for name, weight in self._given["weights"].items()}
        return made(self._given["sizes"], weights)(self._given["batch"]).detach()

    def share(self, name: str, whole: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
        """What a rank has of a parameter, or of its gradient."""
        dim = _dim(name)
        return whole if dim is None else whole.tensor_split(ranks, dim)[rank]

    @property
    def nbytes(self) -> int:
        """The bytes of all parameters together."""
        return sum(each.nbytes for each in self.parameters.values())


def _layer(name: str) -> str:
    return name.split(".")[-2]


def _is_row_bias(name: str) -> bool:
    return _layer(name) in ROW and name.endswith("bias")


def _dim(name: str) -> int | None:
    """The dimension in which a parameter is cut; None: it is not."""
    if _layer(name) in COLUMN:
        return 0
    return 1 if _layer(name) in ROW and name.endswith("weight") else None


def _is_cut(seen: Seen, rank: int, whole: _Uncut) -> Remarks:
    """A rank has its share of each parameter, and nothing else."""
    shapes = seen[rank]["shapes"]
    for name, parameter in whole.parameters.items():
        right, found = list(whole.share(name, parameter, rank, seen.size).shape), shapes.get(name)
        if found is None:
            yield say.remark("no_parameter", name=name, rank=rank, found=", ".join(sorted(shapes)))
        elif found != right:
            told = {"rank": rank, "name": name, "found": found, "right": right}
            yield say.remark("shape", **told, cause=_why_shape(name, found, list(parameter.shape), shapes, whole))


def _why_shape(name: str, found: list[int], all_of_it: list[int], shapes: dict[str, Any], whole: _Uncut) -> str:
    layer = _layer(name)
    if _dim(name) is None:
        return say("bias_cut" if _is_row_bias(name) else "stays_whole", layer=layer)
    if found != all_of_it:
        return say("column" if layer in COLUMN else "row", layer=layer)
    cut = {each for each, parameter in whole.parameters.items() if list(parameter.shape) != shapes.get(each)}
    if not cut:
        return say("nothing_cut")
    return say("other_blocks" if any(_layer(each) == layer for each in cut) else "left_out", layer=layer)


def _passes(seen: Seen) -> Remarks:
    for rank in seen.ranks:
        if seen[rank]["failed"]:
            yield say.remark("failed", seen[rank]["failed"].splitlines()[0][:300], rank=rank)


def _computes_as_one(seen: Seen, rank: int, whole: _Uncut) -> Remarks:
    told, ranks = seen[rank], seen.size
    mistakes = partial(_output_mistakes, whole, ranks)
    output = f"on rank {rank} the output"
    yield holds(output, told["output"], whole.output, mistakes, same=is_close, otherwise=say("output"))
    for name, parameter in whole.parameters.items() if told["gradients"] else ():
        assert parameter.grad is not None
        right, found = whole.share(name, parameter.grad, rank, ranks), told["gradients"].get(name)
        otherwise = say("no_gradient") if found is None else explain_factor(found, right) + say("gradient")
        yield holds(f"on rank {rank} the gradient of {name}", found, right, same=is_close, otherwise=otherwise)


def _output_mistakes(whole: _Uncut, ranks: int) -> Mistakes:
    return {say("biased"): whole.biased(ranks)}


def _sends(seen: Seen, whole: _Uncut) -> Remarks:
    """All-reduces alone, two in each block and direction; and what hands out the weights at the beginning."""
    cut: CutModel = seen.facts
    kinds = sum((bytes_by_kind(seen.trace, rank) for rank in seen.ranks), Counter())
    for kind in sorted(kinds.keys() - SET_UP - {"all_reduce"}):
        call = kind.partition("_into_")[0]
        cause = say("gathers" if "gather" in kind else "other_kind", call=call)
        yield say.remark("kind", call=call, found=count(kinds[kind], "byte"), cause=cause)
    handed_out, most = sum(kinds[kind] for kind in SET_UP), (seen.size - 1) * whole.nbytes
    if handed_out > most:
        yield say.remark("hands_out", found=count(handed_out, "byte"), most=f"{most:,}")
    if (found := kinds["all_reduce"]) != cut.due:
        told = {
            "found": count(found, "byte"),
            "due": f"{cut.due:,}",
            "passes": say("in_forward" if cut.forward_only else "in_both"),
        }
        yield say.remark("all_reduces", **told, cause=_why_bytes(cut, found))


def _why_bytes(cut: CutModel, found: int) -> str:
    more = (found - cut.due) / (cut.one * cut.sizes.blocks) if cut.one else 0.0
    inputs = {2.0: "attention_inputs"} | ({1.0: "mlp_inputs", 3.0: "all_inputs"} if cut.sizes.gated else {})
    return say("other_all_reduces" if cut.forward_only else inputs.get(more, "other_all_reduces"))
