"""Rules about sums: whose values are inside a tensor, and what usually makes it hold others.

Every rank starts with values of its own, so a wrong sum can be taken apart (see `tensor_cases`). With 3 ranks, a piece
of rank 0 that holds x₀ + 2·x₂ has the contents (1, 0, 2): rank 1's values are missing, rank 2's are counted twice.

    on rank 0, chunk 1 (elements 4 to 7) is wrong. It must be the sum over all ranks.
      expected [-43, 24, 10, -30]
      found    [-9, -4, 6, 5]
      The ranks whose values are in each chunk; every chunk should say all:
                chunk 0  chunk 1
        rank 0  all      0
        rank 1  1        all
    Usual cause: the sum lacks the values of rank 1. …

A judge lists its causes in the order in which it believes them; the first that knows something is shown:

    held = LeftInTensors(seen, in_chunks=True)
    yield wrong_values(held, "It must be the sum over all ranks.", [*WRITTEN_ELSEWHERE, average, counted_twice("…"), …])
    yield strayed(held)

What can't be seen: values that are right by accident.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import torch

from distlib.checks.formatting import dtype_name
from distlib.checks.plays.tensor import lay_out
from distlib.checks.remark import Remark
from distlib.checks.rules.returns import type_of
from distlib.checks.rules.values import SHOWN, first_numbers, holds
from distlib.checks.seen import Seen
from distlib.checks.sentences import Sentences
from distlib.checks.tensor_cases import TensorCase, expected_on, rank_input, tensor_facts
from distlib.partition import chunk_lengths
from distlib.worlds.diagnosis import name_ranks

say = Sentences(__file__)
PRINT, REBOUND = say("print"), say("rebound")
DECODED_RANKS = 6  # with more ranks, the 3**N combinations are too many to try: only those nearest to the sum are


@dataclass(frozen=True)
class LeftInTensors:
    """What a run has left in the ranks' tensors, and questions about it. Values are flattened, and sums are exact.

    Attributes:
        seen: a run of a `TensorCase`, played by `plays.tensor.one_tensor`.
        in_chunks: whether to speak of chunks; otherwise of the tensor as a whole.
    """

    seen: Seen
    in_chunks: bool = False

    @property
    def case(self) -> TensorCase:
        """What was run.

        Raises:
            TypeError: the case has no facts.
        """
        return tensor_facts(self.seen, "LeftInTensors")

    @property
    def size(self) -> int:
        """The number of ranks."""
        return self.case.world_size

    @cached_property
    def inputs(self) -> list[torch.Tensor]:
        """What each rank started with."""
        return [exact(rank_input(self.case, rank)) for rank in range(self.size)]

    @cached_property
    def values(self) -> list[torch.Tensor]:
        """What each rank ended with."""
        return [exact(result["values"]) for result in self.seen.results]

    @cached_property
    def targets(self) -> list[torch.Tensor]:
        """What each rank should have ended with, in its judged pieces."""
        wanted = [expected_on(self.case, rank) for rank in range(self.size)]
        return [self.values[rank] if values is None else exact(values) for rank, values in enumerate(wanted)]

    @cached_property
    def pieces(self) -> list[slice]:
        """The chunks, or the whole tensor as one piece."""
        return self.case.chunk_slices if self.in_chunks else [slice(0, self.case.length)]

    def judged(self, rank: int) -> list[int]:
        """The pieces that count on `rank`."""
        chunks = self.case.judged_chunks(rank)
        return chunks if self.in_chunks else [0] * bool(chunks)

    def is_right(self, rank: int, piece: int) -> bool:
        """Whether `rank` holds in this piece what is expected there."""
        part = self.pieces[piece]
        return torch.equal(self.values[rank][part], self.targets[rank][part])

    @cached_property
    def wrong(self) -> list[tuple[int, int]]:
        """The judged pieces that are wrong, as (rank, piece)."""
        return [(rank, k) for rank in range(self.size) for k in self.judged(rank) if not self.is_right(rank, k)]

    @property
    def first(self) -> tuple[int, int]:
        """The first of them: the one that the remark is about."""
        return self.wrong[0]

    @property
    def wrong_ranks(self) -> list[int]:
        """The ranks on which something is wrong."""
        return sorted({rank for rank, _ in self.wrong})

    @cached_property
    def unchanged(self) -> list[int]:
        """The ranks whose tensor is as it was at the start."""
        return [rank for rank, values in enumerate(self.values) if torch.equal(values, self.inputs[rank])]

    def inside(self, rank: int, piece: int) -> tuple[int, ...] | None:
        """How often each rank's values are in a piece; None if it is no such sum, or it is empty."""
        part = self.pieces[piece]
        return contents(self.values[rank][part], [values[part] for values in self.inputs])

    @cached_property
    def inside_first(self) -> tuple[int, ...] | None:
        """How often each rank's values are in the first wrong piece."""
        return self.inside(*self.first)

    def would_be_right(self, candidates: Sequence[torch.Tensor | None]) -> bool:
        """Whether these, by rank, would be right in the place of what the ranks hold."""
        judged = [(rank, values) for rank, values in enumerate(candidates) if self.judged(rank)]
        return all(values is not None and self._fits(rank, values) for rank, values in judged)

    def _fits(self, rank: int, values: torch.Tensor) -> bool:
        if values.numel() != self.case.length:
            return False
        flat, parts = exact(values.flatten()), [self.pieces[k] for k in self.judged(rank)]
        return all(torch.equal(flat[part], self.targets[rank][part]) for part in parts)

    def all_wrong_are(self, candidates: Sequence[torch.Tensor]) -> bool:
        """Whether every wrong piece has the values of the candidate of its rank, shape [length]."""
        return all(
            torch.equal(self.values[rank][self.pieces[k]], candidates[rank][self.pieces[k]]) for rank, k in self.wrong
        )


def exact(values: torch.Tensor) -> torch.Tensor:
    """`values` in a dtype in which small multiples and sums of the values of all cases are exact."""
    if values.dtype.is_complex:
        return values.to(torch.complex128)
    return values.to(torch.float64 if values.dtype.is_floating_point else torch.int64)


def contents(found: torch.Tensor, inputs: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The weights 0, 1 or 2 with which `inputs` sum up to `found`; of several, those nearest to all ones.

    None if there are none, or if `found` is empty. Of more than `DECODED_RANKS` inputs one or two may count 0 times or
    twice, and `found` must have some elements: not every one of them tells these inputs apart.
    """
    number, is_large = len(inputs), len(inputs) > DECODED_RANKS
    if found.numel() < (5 if is_large else 1):
        return None
    rows = _near_the_sum(number) if is_large else itertools.product((0, 1, 2), repeat=number)
    weights = sorted(rows, key=lambda row: sum(abs(w - 1) for w in row))
    table = torch.tensor(weights, dtype=found.dtype)
    sums = (table[:, :, None] * torch.stack(list(inputs))[None]).sum(dim=1)
    hits = (sums == found).all(dim=1).nonzero()
    return weights[int(hits[0])] if len(hits) else None


def _near_the_sum(number: int) -> Iterator[tuple[int, ...]]:
    """Weights of which all are 1 but two at most."""
    for (i, one), (k, other) in itertools.combinations(itertools.product(range(number), (0, 1, 2)), 2):
        yield tuple({i: one, k: other}.get(rank, 1) for rank in range(number)) if i != k else (1,) * number


# ── the remarks ──────────────────────────────────────────────────────────────────────────────────────────────────────

Cause = Callable[[LeftInTensors], str | None]


def wrong_values(
    held: LeftInTensors, rule: str, causes: Sequence[Cause], *, otherwise: str = PRINT, aim: str = "every chunk"
) -> Remark | None:
    """The remark about the first wrong piece, or else about a tensor of another form; None if all is right.

    Args:
        rule: what must be there, a sentence.
        causes: asked in this order.
        otherwise: the cause where none of them knows one.
        aim: the chunks that should have the values of all ranks, for the table of contents; empty for no table.
    """
    if not held.wrong:
        return _another_form(held)
    cause = next(filter(None, (cause(held) for cause in causes)), otherwise)
    rank, piece = held.first
    first, last = held.pieces[piece].start, held.pieces[piece].stop - 1
    entry = "tensor" if not held.in_chunks else "chunk_of_one" if first == last else "chunk"
    words = {"rank": rank, "chunk": piece, "first": first, "last": last, "rule": rule, "cause": cause}
    return say.remark(entry, *_expected_and_found(held), *_table_of_contents(held, aim), **words)


def _another_form(held: LeftInTensors) -> Remark | None:
    """The remark about a tensor that has the right values, but another shape or dtype than it had."""
    for rank, result in enumerate(held.seen.results):
        if result["reformed"] is not None and held.judged(rank):
            right = result["values"].view(lay_out(rank_input(held.case, rank), held.case.layout)[1].shape)
            remark = holds(f"on rank {rank} the tensor", result["reformed"], right)
            return replace(remark, cause=moved_tensor(held) or remark.cause) if remark else None
    return None


def strayed(held: LeftInTensors) -> Remark | None:
    """The remark about memory next to the tensor that was written."""
    ranks = [rank for rank, result in enumerate(held.seen.results) if result["strayed"]]
    return say.remark("strayed", ranks=name_ranks(ranks)) if ranks else None


def _expected_and_found(held: LeftInTensors) -> list[str]:
    rank, piece = held.first
    part = held.pieces[piece]
    start = part.start
    if part.stop - part.start > SHOWN:
        differs = (held.values[rank][part] != held.targets[rank][part]).nonzero()
        start += int(differs[0])
    rest = slice(start, part.stop)
    at = f"   from element {start} on" if start != part.start else ""
    digits = 17 if held.case.dtype == torch.float64 else 6
    return [
        f"expected {first_numbers(held.targets[rank][rest], digits)}{at}",
        f"found    {first_numbers(held.values[rank][rest], digits)}",
    ]


def _table_of_contents(held: LeftInTensors, aim: str) -> list[str]:
    """Whose values each chunk holds, one line per rank. Empty where that says nothing."""
    if not (aim and held.in_chunks) or not 2 <= held.size <= DECODED_RANKS:
        return []
    pieces = range(len(held.pieces))
    rows = [[_contents(held, rank, piece) for piece in pieces] for rank in range(held.size)]
    if any(text == "?" for row in rows for text in row):
        return []
    lines = [["", *(f"chunk {k}" for k in pieces)], *([f"rank {rank}", *row] for rank, row in enumerate(rows))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return [say("table", aim=aim), *("  " + line.rstrip() for line in aligned)]


def _contents(held: LeftInTensors, rank: int, piece: int) -> str:
    if held.pieces[piece].start == held.pieces[piece].stop:
        return "(empty)"
    inside = held.inside(rank, piece)
    if inside is None:
        return "?"
    if all(times == 1 for times in inside):
        return "all"
    return "+".join(str(source) for source, times in enumerate(inside) for _ in range(times)) or "zeros"


# ── usual causes: the result is in another place ─────────────────────────────────────────────────────────────────────


def new_tensor(held: LeftInTensors) -> str | None:
    """The result is returned."""
    returned = [result["returned"] if result["is_other"] else None for result in held.seen.results]
    return say("new_tensor") if held.would_be_right(returned) else None


def moved_tensor(held: LeftInTensors) -> str | None:
    """The student's tensor object points to other memory."""
    moved = [result["moved"] for result in held.seen.results]
    return say("moved_tensor") if held.would_be_right(moved) else None


def has_not_run(held: LeftInTensors) -> str | None:
    """The function is a generator, or a coroutine."""
    kind = type_of(held.seen.results[0]["returned"])
    return say("has_not_run") if kind in ("generator", "coroutine", "async_generator") else None


def nothing_happened(held: LeftInTensors) -> str | None:
    """No message, and no tensor has changed."""
    if len(held.unchanged) < held.size or len(held.seen.trace):
        return None
    return say("nothing_happened")


def worked_on_copy(held: LeftInTensors) -> str | None:
    """Messages, but the tensor is as it was; or in part, where flat views are copies."""
    if held.case.layout in ("transposed", "strided"):
        is_kept = set(held.wrong_ranks) <= set(held.unchanged)
        return say("copy_unwritten" if is_kept else "copy_in_part", copies=say("copies"))
    if len(held.unchanged) < held.size:
        return None
    return say("other_tensor", rebound=REBOUND)


def first_dimension(held: LeftInTensors) -> str | None:
    """Nothing has changed from element len(tensor) on."""
    shape = lay_out(rank_input(held.case, 0), held.case.layout)[1].shape
    if len(shape) < 2 or len(held.unchanged) == held.size:
        return None
    pairs = zip(held.values, held.inputs, strict=True)
    if not all(torch.equal(values[shape[0] :], before[shape[0] :]) for values, before in pairs):
        return None
    return say("first_dimension", first=shape[0], length=held.case.length)


def not_flat(held: LeftInTensors) -> str | None:
    """The messages are chunks of rows."""
    shape, parts = lay_out(rank_input(held.case, 0), held.case.layout)[1].shape, len(held.case.chunk_lengths)
    rows = {length * (held.case.length // shape[0]) for length in chunk_lengths(shape[0], parts)} if shape else set()
    sent = {m.nbytes // held.case.dtype.itemsize for m in held.seen.trace}
    if len(shape) < 2 or not sent or not sent <= rows or sent <= {0, *held.case.chunk_lengths}:
        return None
    return say("not_flat")


def read_early(held: LeftInTensors) -> str | None:
    """NaN, which no input has: see `StudentCommunicator`, which puts it where something is still to come."""
    return say("read_early") if any(bool((values != values).any()) for values in held.values) else None


WRITTEN_ELSEWHERE: tuple[Cause, ...] = (
    new_tensor,
    moved_tensor,
    has_not_run,
    nothing_happened,
    worked_on_copy,
    first_dimension,
    not_flat,
    read_early,
)


# ── usual causes: another computation ────────────────────────────────────────────────────────────────────────────────


def rank_0_left_out(held: LeftInTensors) -> str | None:
    """All others have the sum, and rank 0's tensor is as it was."""
    if held.size < 2 or held.wrong_ranks != [0] or 0 not in held.unchanged:
        return None
    return say("rank_0_left_out", rebound=REBOUND)


def average(held: LeftInTensors) -> str | None:
    """The right values, divided by the number of ranks."""
    if held.size == 1 or not held.case.dtype.is_floating_point:
        return None
    means = [exact((values / held.size).to(held.case.dtype)) for values in held.targets]
    return say("average") if held.all_wrong_are(means) else None


def other_reduction(held: LeftInTensors) -> str | None:
    """Maximum, minimum or product."""
    if held.case.dtype == torch.bool or all(sum(held.inside(rank, k) or ()) == 1 for rank, k in held.wrong):
        return None  # each piece has one rank's values; by chance these may be the largest
    reductions = {"maximum": torch.maximum, "minimum": torch.minimum, "product": torch.mul}
    for name, combine in reductions.items():
        if (
            held.size > 1
            and not held.case.dtype.is_complex
            and held.all_wrong_are([reduce(combine, held.inputs)] * held.size)
        ):
            return say("other_reduction", name=name)
    return None


def lost_digits(held: LeftInTensors) -> str | None:
    """Only the last digits differ."""
    pairs = [(held.values[rank][held.pieces[k]], held.targets[rank][held.pieces[k]]) for rank, k in held.wrong]
    relative = 1e-2 if held.case.dtype.is_floating_point and held.case.dtype.itemsize < 4 else 1e-6
    if any(bool(((found - right).abs() > right.abs() * relative).any()) for found, right in pairs):
        return None
    return say("lost_digits", dtype=dtype_name(held.case.dtype))


def rank_added(held: LeftInTensors) -> str | None:
    """`tensor += comm.recv(…)`: what recv returns was added, the number of the rank that has sent."""
    rank, _ = held.first
    change = (held.values[rank] - held.inputs[rank]).tolist()
    steps = [set(change[part]) for part in held.pieces if part.start < part.stop]
    numbers = set().union(*steps)
    if held.case.length < 2 or any(len(step) > 1 for step in steps) or not numbers <= set(range(held.size**2)):
        return None
    if numbers <= {0}:
        return None
    return say("rank_added", number=int(max(numbers)))


# ── usual causes: chunks cut, moved or added in another way ──────────────────────────────────────────────────────────


def remainder(held: LeftInTensors) -> str | None:
    """Chunks of equal length that leave the last elements out."""
    parts = len(held.case.chunk_lengths)
    length = held.case.length // parts
    covered = length * parts
    if not 0 < covered < held.case.length:
        return None
    if not all(_is_right_up_to(held, rank, covered) for rank in range(held.size)):
        return None
    return say("remainder", cut=cut(held, length), covered=covered)


def _is_right_up_to(held: LeftInTensors, rank: int, stop: int) -> bool:
    parts = [held.pieces[k] for k in held.judged(rank)]
    ends = [slice(part.start, min(part.stop, stop)) for part in parts if part.start < stop]
    return all(torch.equal(held.values[rank][part], held.targets[rank][part]) for part in ends)


def cut(held: LeftInTensors, length: int) -> str:
    """Chunks of this length, against those of `torch.tensor_split`, in words."""
    whole, parts = held.case.length, len(held.case.chunk_lengths)
    lengths = ", ".join(map(str, chunk_lengths(whole, parts)))
    return say("cut", length=whole, parts=parts, each=length, lengths=lengths)


def counted_twice(advice: str) -> Cause:
    """A rank's values are in the first wrong piece more than once. `advice` goes on after that; all ranks' may be."""

    def cause(held: LeftInTensors) -> str | None:
        twice = [rank for rank, times in enumerate(held.inside_first or ()) if times > 1]
        words = say("counted_twice", ranks=name_ranks(twice), advice=advice) if twice else None
        return _doubled(held) or words or _times_the_sum(held, advice)

    return cause


def _times_the_sum(held: LeftInTensors, advice: str) -> str | None:
    for factor in range(2, held.size**2 + 1):
        if any(target.any() for target in held.targets) and held.all_wrong_are([factor * t for t in held.targets]):
            return say("times_the_sum", factor=factor, advice=advice)
    return None


def _doubled(held: LeftInTensors) -> str | None:
    """The first wrong piece has 2, 4, … times the values of another rank."""
    (rank, k), inside = held.first, held.inside_first
    own, part = held.values[rank][held.pieces[k]], held.pieces[k]
    pairs = ((source, 2**n) for n in range(1, held.size) for source in range(held.size) if source != rank)
    found = next((pair for pair in pairs if torch.equal(own, pair[1] * held.inputs[pair[0]][part])), None)
    if found is None or not own.any() or (inside and max(inside) < 2):
        return None
    return say("doubled", factor=found[1], source=found[0], rank=rank)


def lacking(advice: str | Callable[[LeftInTensors, int], str]) -> Cause:
    """Some ranks' values are missing in the first wrong piece, which has those of two ranks or more.

    Args:
        advice: goes on after that; or a function of one of these ranks, such as `way_of`.
    """

    def cause(held: LeftInTensors) -> str | None:
        inside = held.inside_first
        if inside is None or sum(inside) < 2 or 0 not in inside:
            return None
        missing = [rank for rank, times in enumerate(inside) if times == 0]
        more = advice if isinstance(advice, str) else advice(held, missing[0])
        return say("lacking", ranks=name_ranks(missing), advice=more)

    return cause


def way_of(held: LeftInTensors, source: int) -> str:
    """What became of the values of `source` on their way to the first wrong rank, where whole tensors travel."""
    rank, sent = held.first[0], sorted((m for m in held.seen.trace if m.nbytes), key=lambda m: m.start)
    first = next((m for m in sent if m.src == source), None)
    if source == rank:
        return say("its_own")
    if first is None:
        return say("silent", rank=source) + steps_of(held)
    via = first.dst
    if via == rank:
        return say("not_added", source=source, rank=rank)
    on = [m for m in sent if m.src == via and m.dst == rank] or [m for m in sent if m.src == via]
    if not on:
        return say("silent", rank=via) + steps_of(held)
    if on[-1].start < first.end:
        return say("sent_before", via=via, to=on[-1].dst, source=source)
    return say("sent_after", via=via, to=on[-1].dst, source=source)


def steps_of(held: LeftInTensors) -> str:
    """How many steps a tree takes, where the number of ranks is not a power of two; otherwise nothing."""
    is_tree = held.case.collective in ("broadcast", "reduce") or held.case.algorithm == "tree"
    if not is_tree or not held.size & (held.size - 1):
        return ""
    return f" {say('tree', ranks=held.size, steps=(held.size - 1).bit_length())}"


def zeros(held: LeftInTensors) -> str | None:
    """The first wrong piece is zero."""
    if held.inside_first is None or any(held.inside_first):
        return None
    return say("zeros")


def own_alone(advice: str) -> Cause:
    """The first wrong piece has the rank's own values."""

    def cause(held: LeftInTensors) -> str | None:
        return say("own_alone", advice=advice) if whose(held) == held.first[0] else None

    return cause


def replaced(held: LeftInTensors) -> str | None:
    """The first wrong piece has the values of another rank alone."""
    source = whose(held)
    if source is None or source == held.first[0]:
        return None
    return say("replaced", source=source)


def whose(held: LeftInTensors) -> int | None:
    """The rank whose values alone are in the first wrong piece; None if there are others."""
    inside = held.inside_first
    return inside.index(1) if inside is not None and sum(inside) == 1 else None


def one_full_chunk_each(held: LeftInTensors, ranks: Sequence[int]) -> bool:
    """Whether each of these ranks has exactly one chunk right, as after a reduce-scatter."""
    lengths = held.case.chunk_lengths
    right = [[k for k in range(len(lengths)) if lengths[k] and held.is_right(rank, k)] for rank in ranks]
    return len(ranks) > 1 and all(len(chunks) == 1 for chunks in right)
