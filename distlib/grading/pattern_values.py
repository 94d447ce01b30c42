"""The remark about wrong values after a shift, broadcast, scatter, gather or reduce, and the usual causes.

Every rank starts with values of its own. So what is found in a wrong place can be recognized: another rank's values,
another chunk, a sum that lacks somebody.

What can't be seen: values that are right by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from distlib.checks.remark import Remark
from distlib.checks.rules.values import first_numbers, is_equal
from distlib.grading.case import Case, count, dtype_name, rank_input
from distlib.grading.rank_side import Outcome
from distlib.grading.seen import contents, exact
from distlib.worlds.diagnosis import name_ranks

_IN_PLACE = ("shift", "broadcast", "reduce")
_RULES = {
    "shift": "Rank r must hold what rank r - 1 had at the start, and rank 0 what the last rank had.",
    "broadcast": "Every rank must hold what the root had at the start.",
    "scatter": "Rank r must return chunk r of the root's tensor.",
    "gather": "The root must return a list with the tensor of every rank, in order of rank.",
    "reduce": "The root must hold the sum over all ranks.",
}


@dataclass(frozen=True)
class Held:
    """What a run of one of the five patterns has left behind.

    Attributes:
        case: what was run.
        outcomes: by rank.
        num_messages: how many messages there were.
    """

    case: Case
    outcomes: Sequence[Outcome]
    num_messages: int

    @property
    def root(self) -> int:
        """The root; 0 for a shift, which has none."""
        return self.case.root or 0

    @cached_property
    def inputs(self) -> list[torch.Tensor]:
        """What each rank started with."""
        return [rank_input(self.case, rank) for rank in range(self.case.world_size)]

    @cached_property
    def total(self) -> torch.Tensor:
        """The sum over all ranks."""
        return torch.stack(self.inputs).sum(dim=0, dtype=self.case.dtype)

    def expected(self, rank: int) -> torch.Tensor | None:
        """What the tensor of `rank` must hold at the end; None if that is free."""
        collective, inputs = self.case.collective, self.inputs
        if collective == "shift":
            return inputs[rank - 1]
        if collective == "broadcast":
            return inputs[self.root]
        if collective == "reduce":
            return self.total if rank == self.root else None
        return inputs[rank]  # scatter and gather change no tensor

    def wanted(self, rank: int) -> list[torch.Tensor] | None:
        """What `rank` must return; None if it must return None."""
        if self.case.collective == "scatter":
            return [self.inputs[self.root][self.case.chunk_slices[rank]]]
        return self.inputs if rank == self.root else None

    def would_be_right(self, candidate: Callable[[Outcome], torch.Tensor | None]) -> bool:
        """Whether `candidate(outcome)` is on every rank what its tensor should hold."""
        pairs = [(candidate(outcome), self.expected(rank)) for rank, outcome in enumerate(self.outcomes)]
        return all(wanted is None or (found is not None and is_equal(found, wanted)) for found, wanted in pairs)


def explain_pattern_values(held: Held) -> Remark | None:
    """The remark about the first thing that is wrong; None if all is right."""
    ranks = range(held.case.world_size)
    remarks: list[Remark | None] = (
        [] if held.case.collective in _IN_PLACE else [_returned(held, rank) for rank in ranks]
    )
    remarks += [_tensor(held, rank) for rank in ranks]
    remarks += [_strayed(rank, outcome) for rank, outcome in enumerate(held.outcomes)]
    return next((remark for remark in remarks if remark), None)


# ── the tensor ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _tensor(held: Held, rank: int) -> Remark | None:
    expected, found = held.expected(rank), held.outcomes[rank].values
    if expected is None or is_equal(found, expected):
        return None
    if held.case.collective not in _IN_PLACE:
        return Remark(
            f"the result is right, but rank {rank}'s own tensor was changed.",
            _lines(expected, found),
            "what is received has been written into the tensor that the function was given. Receive into a new one: "
            "torch.empty_like(tensor).",
        )
    return Remark(
        f"on rank {rank} the tensor is wrong. {_RULES[held.case.collective]}",
        _lines(expected, found),
        _cause(held, rank),
    )


def _cause(held: Held, rank: int) -> str:
    questions = (_in_other_place, _other_root, _one_goes_round, _nothing_arrived, _lost_digits, _part_only)
    own = {"shift": _cause_of_shift, "broadcast": _cause_of_broadcast, "reduce": _cause_of_reduce}
    found = held.outcomes[rank].values
    told = next((cause for cause in (question(held, rank) for question in questions) if cause), "")
    return told or own[held.case.collective](held, rank, found) or "print the tensor on every rank, after each message."


def _in_other_place(held: Held, rank: int) -> str:
    if held.would_be_right(lambda outcome: outcome.returned):
        return (
            "the result is right, but it is in a new tensor that your function returns. Write it into the tensor you "
            "were given: tensor.copy_(result)."
        )
    if held.would_be_right(lambda outcome: outcome.moved):
        return (
            "the result is right, but you have pointed the tensor to other memory. Copy instead: tensor.copy_(result)."
        )
    return ""


def _other_root(held: Held, rank: int) -> str:
    done = {
        "broadcast": _all_have_those_of_rank_0,
        "reduce": lambda held: is_equal(held.outcomes[0].values, held.total),
    }
    if not held.root or not done.get(held.case.collective, lambda held: False)(held):
        return ""
    return (
        f"rank 0 plays the root, but the root is rank {held.root}. Count ranks from the root: "
        "place = (comm.rank - root) % comm.world_size."
    )


def _one_goes_round(held: Held, rank: int) -> str:
    everybody_sent = held.num_messages >= held.case.world_size
    if held.case.collective != "shift" or not everybody_sent or not _all_have_those_of_rank_0(held):
        return ""
    return (
        "every rank has what rank 0 had: each passes on what it has just received. Each must send what it had at the "
        "start, and receive into a separate buffer."
    )


def _all_have_those_of_rank_0(held: Held) -> bool:
    return all(is_equal(outcome.values, held.inputs[0]) for outcome in held.outcomes)


def _nothing_arrived(held: Held, rank: int) -> str:
    if not is_equal(held.outcomes[rank].values, held.inputs[rank]):
        return ""
    if not held.num_messages:
        return "no message was sent, and the tensor is as it was. Does the function return too early?"
    if held.case.layout in ("transposed", "strided"):
        return (
            "the tensor is as it was: reshape(-1), flatten() and contiguous() make a copy of a tensor whose memory is "
            "not contiguous. Receive into the copy, then write it back with tensor.copy_."
        )
    return (
        "the tensor is as it was at the start. Either this rank never received, or the result went into another "
        "tensor: `tensor = x` only renames, tensor.copy_(x) and `tensor += x` write."
    )


def _lost_digits(held: Held, rank: int) -> str:
    expected = held.expected(rank)
    assert expected is not None
    scale, worst = expected.double().abs().max(), (held.outcomes[rank].values.double() - expected.double()).abs().max()
    if float(worst) > float(scale) * (1e-2 if held.case.dtype.is_floating_point else 1e-6):
        return ""
    return (
        f"only the last digits differ: a detour through another dtype. Keep {dtype_name(held.case.dtype)} throughout."
    )


def _part_only(held: Held, rank: int) -> str:
    expected = held.expected(rank)
    assert expected is not None
    right = int((held.outcomes[rank].values == expected).sum())
    if right < held.case.length / 2:
        return ""
    return f"{count(right, 'element')} of {held.case.length} are right. Send the tensor as a whole, not in parts."


def _cause_of_shift(held: Held, rank: int, found: torch.Tensor) -> str:
    size = held.case.world_size
    source = _whose(held, found)
    if source == (rank + 1) % size:
        return (
            f"these are the values of rank {source}: the shift goes the wrong way. Rank r sends to rank "
            "(r + 1) % world_size and receives from rank (r - 1) % world_size."
        )
    if source is not None:
        return (
            f"these are the values that rank {source} had at the start. Rank r sends to rank (r + 1) % world_size, and "
            "sends what it had at the start."
        )
    inside = contents(exact(found), [exact(values) for values in held.inputs])
    if inside and sum(inside) > 1:
        return "values were added. A shift only moves them: what comes in replaces what was there."
    return ""


def _cause_of_broadcast(held: Held, rank: int, found: torch.Tensor) -> str:
    source = _whose(held, found)
    if source is not None:
        return (
            f"these are the values of rank {source}, not of the root, rank {held.root}. Somebody has sent before it "
            "had received."
        )
    inside = contents(exact(found), [exact(values) for values in held.inputs])
    if inside and sum(inside) > 1:
        return "values were added. A broadcast only copies: what comes in replaces what was there."
    return ""


def _cause_of_reduce(held: Held, rank: int, found: torch.Tensor) -> str:
    size = held.case.world_size
    if held.case.dtype.is_floating_point and is_equal(found, (held.total.double() / size).to(found.dtype)):
        return "this is the average. The sum is asked for: do not divide by comm.world_size."
    if _whose(held, found) is None and is_equal(found, torch.stack(held.inputs).amax(dim=0)):
        return "this is the maximum over the ranks. The sum is asked for."
    return _whose_are_inside(held, rank, found)


def _whose_are_inside(held: Held, rank: int, found: torch.Tensor) -> str:
    inside = contents(exact(found), [exact(values) for values in held.inputs])
    if inside is None:
        return ""
    twice = [source for source, times in enumerate(inside) if times > 1]
    missing = [source for source, times in enumerate(inside) if times == 0]
    if twice:
        return (
            f"the sum counts {name_ranks(twice)} more than once. A rank that has sent its sum must be "
            "left out from then on."
        )
    if sum(inside) == 1:
        return (
            f"these are the values of rank {inside.index(1)} alone: what was received has replaced what was there. "
            "Receive into a separate buffer, then add it."
        )
    return (
        f"the sum lacks the values of {name_ranks(missing)}. Is a rank sending before it has received "
        "from all below it?"
    )


# ── what the function returns ────────────────────────────────────────────────────────────────────────────────────────


def _returned(held: Held, rank: int) -> Remark | None:
    wanted, outcome = held.wanted(rank), held.outcomes[rank]
    if wanted is None:
        if outcome.returned_type == "NoneType":
            return None
        return Remark(
            f"rank {rank} returned a value of type {outcome.returned_type}; expected None, because the root is rank "
            f"{held.root}.",
            cause="only the root collects. Compare comm.rank with root, and let the others return nothing.",
        )
    if outcome.result is None or (held.case.collective == "gather") != (outcome.returned_type == "list"):
        return _wrong_type(held, rank)
    return _compare(held, rank, wanted, outcome.result)


def _wrong_type(held: Held, rank: int) -> Remark:
    what = "a list of tensors" if held.case.collective == "gather" else "a tensor"
    found = held.outcomes[rank].returned_type
    at_root = rank == held.root
    cause = "the last line of the function must return the result."
    if found != "NoneType":
        cause = f"the result has another type. Expected is {what}."
    elif held.case.collective == "scatter":
        cause = f"{'the root, too, has a chunk' if at_root else 'the others return what they received'}: return it."
    elif held.root:
        cause = f"the root is rank {held.root}. Compare comm.rank with root, not with 0."
    returned = "None" if found == "NoneType" else f"a value of type {found}"
    return Remark(f"rank {rank} returned {returned}; expected {what}.", (), cause)


def _compare(held: Held, rank: int, wanted: list[torch.Tensor], found: list[torch.Tensor]) -> Remark | None:
    if len(wanted) != len(found):
        return Remark(
            f"rank {rank} returned a list of {count(len(found), 'tensor')}; expected {len(wanted)}, one of every rank.",
            cause="the list must contain the root's own tensor too, at index root." if len(found) < len(wanted) else "",
        )
    wrong = [k for k, pair in enumerate(zip(wanted, found, strict=True)) if not is_equal(*pair)]
    if not wrong:
        return None
    k = wrong[0]
    where = f"entry {k} of the list is wrong" if held.case.collective == "gather" else "the returned tensor is wrong"
    cause = (
        _cause_of_gather(held, k, found)
        if held.case.collective == "gather"
        else _cause_of_scatter(held, rank, found[0])
    )
    return Remark(f"on rank {rank}, {where}. {_RULES[held.case.collective]}", _lines(wanted[k], found[k]), cause)


def _cause_of_scatter(held: Held, rank: int, found: torch.Tensor) -> str:
    case, root = held.case, held.root
    parts = case.chunk_slices
    wanted = held.inputs[root][parts[rank]]
    if found.dtype != case.dtype:
        return f"the result is {dtype_name(found.dtype)}. Keep {dtype_name(case.dtype)}: torch.empty_like(chunk)."
    if found.numel() == case.length != wanted.numel():
        return "this is a whole tensor. Each rank returns its own chunk only."
    if is_equal(found, held.inputs[rank][parts[rank]]):
        return (
            f"this is chunk {rank} of the rank's own tensor: nothing from the root, rank {root}, was received into it."
        )
    for source, values in enumerate(held.inputs):
        for k, part in enumerate(parts):
            if is_equal(found, values[part]):
                return (
                    f"this is chunk {k} of rank {source}'s tensor. Rank {rank} gets chunk {rank} of rank {root}'s: the "
                    "chunk has the number of the rank that it goes to, whoever is the root."
                )
    if found.numel() != wanted.numel():
        return _other_length(case, found.numel(), wanted.numel())
    return "send each chunk once, straight from torch.tensor_split(tensor.reshape(-1), comm.world_size)."


def _other_length(case: Case, found: int, wanted: int) -> str:
    lengths = ", ".join(map(str, case.chunk_lengths))
    return (
        f"the chunk has {count(found, 'element')} instead of {wanted}. {case.length} elements on "
        f"{count(case.world_size, 'rank')}: torch.tensor_split cuts {lengths}."
    )


def _cause_of_gather(held: Held, k: int, found: list[torch.Tensor]) -> str:
    if found[k].dtype != held.case.dtype:
        return (
            f"the result is {dtype_name(found[k].dtype)}. Keep {dtype_name(held.case.dtype)}: torch.empty_like(tensor)."
        )
    others = [entry for number, entry in enumerate(found) if number != held.root]
    if len(others) > 1 and all(is_equal(entry, others[0]) for entry in others):
        return "all received entries are the same: one buffer was used for all. Make a new one for each rank."
    source = _whose(held, found[k])
    if source is not None:
        return (
            f"these are the values of rank {source}. The list is in order of rank, not in order of arrival, and not "
            "with the root first."
        )
    return "each entry is one rank's tensor as it is: nothing is added, and nothing is left out."


# ── wording ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _strayed(rank: int, outcome: Outcome) -> Remark | None:
    if not outcome.strayed:
        return None
    return Remark(
        f"the values are right, but rank {rank} also wrote into memory that is not part of the tensor.",
        cause="the tensor is a view of a longer one. Write through the tensor you were given, not through its storage.",
    )


def _whose(held: Held, found: torch.Tensor) -> int | None:
    return next((rank for rank, values in enumerate(held.inputs) if is_equal(found, values)), None)


def _lines(expected: torch.Tensor, found: torch.Tensor) -> tuple[str, str]:
    return f"expected {first_numbers(expected)}", f"found    {first_numbers(found)}"
