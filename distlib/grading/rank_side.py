"""What runs on each rank during a check: make the tensor, call the student's function, look at the tensor's memory.

    values ──► memory ──► view ──► function(comm, view) ──► memory again, and what the function returned

The memory is read through a view of our own, so a function that points its tensor elsewhere is seen not to write it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from distlib.communicator import Communicator
from distlib.grading.case import Case, lay_out, rank_input
from distlib.grading.student_communicator import StudentCommunicator


@dataclass(frozen=True)
class Outcome:
    """What one rank holds after the function has returned.

    Attributes:
        values: the elements of the tensor's memory, shape [length].
        returned: the elements of the tensor that the function returned, if that is another tensor; else None.
        returned_type: the name of the type of what it returned.
        moved: the elements that the student's tensor object shows, if it was pointed to other memory; else None.
        strayed: whether memory beside the tensor was written.
        result: the elements of what the function returned, if that is a tensor or a list of tensors; else None. A list
            of one for a tensor.
    """

    values: torch.Tensor
    returned: torch.Tensor | None
    returned_type: str
    moved: torch.Tensor | None
    strayed: bool
    result: list[torch.Tensor] | None = None


def run_case(comm: Communicator, function: Callable[..., object], case: Case) -> Outcome:
    """Call `function` for `case` on this rank. Its exceptions pass through."""
    memory, view = lay_out(rank_input(case, comm.rank), case.layout)
    ours = memory.as_strided(view.shape, view.stride(), view.storage_offset())
    before = memory.clone()
    options = {} if case.root is None else {"root": case.root}
    returned = function(StudentCommunicator(comm), view, **options)
    return Outcome(
        values=ours.flatten().clone(),
        returned=_flat_copy(returned) if _is_other_tensor(returned, ours) else None,
        returned_type=type(returned).__name__,
        moved=_flat_copy(view) if _is_other_tensor(view, ours) else None,
        strayed=_wrote_beside(memory, before, ours),
        result=_tensors(returned),
    )


def _is_other_tensor(value: object, ours: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.data_ptr() != ours.data_ptr()


def _tensors(returned: object) -> list[torch.Tensor] | None:
    items = list(returned) if isinstance(returned, list | tuple) else [returned]
    return [_flat_copy(item) for item in items] if all(isinstance(item, torch.Tensor) for item in items) else None


def _flat_copy(tensor: object) -> torch.Tensor:
    assert isinstance(tensor, torch.Tensor)
    return tensor.detach().flatten().clone()


def _wrote_beside(memory: torch.Tensor, before: torch.Tensor, ours: torch.Tensor) -> bool:
    inside = torch.zeros(memory.shape, dtype=torch.bool)
    inside.as_strided(ours.shape, ours.stride(), ours.storage_offset()).fill_(True)
    return not torch.equal(memory[~inside], before[~inside])
