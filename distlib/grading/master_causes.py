"""From a wrong value in a stage of DataParallel to what usually causes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from distlib.checks.rules.values import is_close

_WRONG_ORDER = (
    "all rows are there, in the wrong order. Part r comes from rank r: name the source, and do not take what comes "
    "first."
)
_OWN_MISSING = "the output of rank 0 itself is missing at the beginning. Nobody sends it: rank 0 has it already."
_LENGTHS = "the parts have different lengths where B does not divide. Is each received with its own length?"
_NOTHING = "the function returns None here. Is there a return for this rank?"


def cause_of_part(found: object, batches: Sequence[torch.Tensor], rank: int) -> str:
    """Of a wrong part of the batch. `batches`: of all ranks; that of rank 0 counts."""
    if found is None:
        return _NOTHING
    batch, size = batches[0], len(batches)
    own = batches[rank].tensor_split(size)[rank]
    known = [
        (batch, "this is the whole batch. Return only the rows of this rank."),
        (own, "these are rows of this rank's own tensor. Only rank 0's batch counts: receive the part from there."),
        (batches[rank], "this is this rank's own tensor, whole. Receive the part from rank 0."),
        (batch[rank::size], "every N-th row was taken. Here the parts are cut in order, as torch.tensor_split does."),
        (_parts(batch.chunk(size), rank), "torch.chunk cuts other lengths: 3, 3, 3, 1 where torch.tensor_split cuts "
         "3, 3, 2, 2. Here the lengths of the parts differ by one at most."),
        (batch[rank * (len(batch) // size) :][: len(batch) // size], "B // N rows for each rank leave some over. When "
         "B does not divide, the first parts are one row longer: torch.tensor_split does that."),
        *((part, "this is the part of another rank.") for part in batch.tensor_split(size)),
    ]  # fmt: skip
    cause = next((cause for value, cause in known if value is not None and _alike(found, value)), "")
    return cause or _cause_of_shape(found, batch.tensor_split(size)[rank])


def _parts(parts: Sequence[torch.Tensor], rank: int) -> torch.Tensor | None:
    return parts[rank] if rank < len(parts) else None


def cause_of_copy(found: object, given: Sequence[torch.Tensor], rank: int, is_buffer: bool) -> str:
    """Of a wrong tensor of a model. `given`: what every rank had before."""
    if rank == 0:
        return "rank 0 has the model that counts. It sends, and receives nothing."
    if _alike(found, given[rank]) and is_buffer:
        return "this is still the rank's own buffer. A model has model.buffers() besides model.parameters()."
    if _alike(found, given[rank]):
        return (
            "this is still the rank's own tensor. Receive into the parameter itself, in place, and do not forget any: "
            "a frozen parameter counts, too."
        )
    if _alike(found, sum(given)):
        return "these are sums over the ranks. The others get a copy of what rank 0 has."
    return "are the tensors received in the order in which they are sent?"


def cause_of_outputs(found: object, parts: Sequence[torch.Tensor]) -> str:
    """Of wrong outputs on rank 0. `parts`: of all ranks."""
    if found is None:
        return _NOTHING
    if isinstance(found, list | tuple):
        return "this is a list of parts. Put them together with torch.cat."
    together = torch.cat(list(parts))
    if not isinstance(found, torch.Tensor):
        return "return one tensor."
    if _alike(found, parts[0]):
        return "this is only the output of rank 0 itself."
    if _alike(found, torch.cat([*parts[1:], parts[0][:0]])):
        return _OWN_MISSING
    if mistake := _cause_of_shape(found, together):
        return mistake
    if sorted(map(str, found.tolist())) == sorted(map(str, together.tolist())):
        return _WRONG_ORDER
    return _LENGTHS if _alike(found[: len(parts[0])], parts[0]) else _OWN_MISSING


def cause_of_sum(found: object, given: Sequence[torch.Tensor | None]) -> str:
    """Of a wrong sum of gradients on rank 0. `given`: of all ranks."""
    gradients = [gradient for gradient in given if gradient is not None]
    if not gradients:
        return "this parameter is frozen: it has no gradient on any rank, and gets none."
    total = torch.stack(gradients).sum(dim=0)
    known = [
        (total / len(gradients), "this is the average. The loss is that of the whole batch, so the division is in the "
         "gradients already: only add."),
        (gradients[0], "this is still rank 0's own gradient. Is what comes in added into parameter.grad?"),
        (total - gradients[0], "rank 0's own gradient is missing in the sum."),
        (total + gradients[0], "rank 0's own gradient is counted twice."),
        (gradients[-1], "this is the gradient of the last rank. Add what comes in, do not copy it."),
    ]  # fmt: skip
    return next((cause for value, cause in known if _alike(found, value)), "")


def _cause_of_shape(found: object, wanted: torch.Tensor) -> str:
    if not isinstance(found, torch.Tensor):
        return "return a tensor."
    if found.dtype != wanted.dtype:
        return f"a buffer for what comes in needs the right dtype, {wanted.dtype}: torch.empty(…, dtype=…)."
    if found.shape != wanted.shape:
        return f"the shape should be {list(wanted.shape)}, and is {list(found.shape)}."
    return ""


def _alike(found: object, value: object) -> bool:
    """Whether the numbers are the same, whatever the dtype."""
    return is_close(found, value, absolute=1e-8, any_dtype=True)
