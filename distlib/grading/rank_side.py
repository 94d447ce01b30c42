"""What runs on each rank during a check: make the tensor, call the student's function, look at the tensor's memory.

    values ──► memory ──► view ──► function(comm, view) ──► memory again, and what the function returned

The memory is read through a view of our own, so a function that points its tensor elsewhere is seen not to write it.

The ranks of a case begin a little apart, in an order that has nothing to do with their numbers. So a function that
takes messages in the order of their arrival gets them in an order other than that of the ranks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from distlib.checks.student_communicator import StudentCommunicator
from distlib.communicator import Communicator
from distlib.grading.case import Case, lay_out, rank_input
from distlib.trace import Trace
from distlib.worlds import pickling
from distlib.worlds.diagnosis import RankError
from distlib.worlds.simulated.simulator import SimulatedWorld

_APART = 0.001  # seconds between one rank's start and the next one's


@dataclass(frozen=True)
class Outcome:
    """What one rank holds after the function has returned.

    Attributes:
        values: the elements of the tensor's memory, shape [length].
        returned: the elements of the tensor that the function returned, if that is another tensor; else None.
        returned_type: the name of the type of what it returned.
        moved: the elements that the student's tensor object shows, if it was pointed to other memory; else None.
        strayed: whether memory next to the tensor was written.
        result: the elements of what the function returned, if that is a tensor or a list of tensors; else None. A list
            of one for a tensor.
    """

    values: torch.Tensor
    returned: torch.Tensor | None
    returned_type: str
    moved: torch.Tensor | None
    strayed: bool
    result: list[torch.Tensor] | None = None


def run_case(comm: Communicator, packed: bytes, case: Case) -> Outcome:
    """Call a function for `case` on this rank. Its exceptions pass through.

    Args:
        packed: what `pickling.pack_call` made of the function without arguments. Each rank unpacks it for itself, so
            that each has the notebook's variables of its own, also simulated ranks that share a process.
    """
    function, _, _ = pickling.loads(packed)
    memory, view = lay_out(rank_input(case, comm.rank), case.layout)
    ours = memory.as_strided(view.shape, view.stride(), view.storage_offset())
    before = memory.clone()
    comm.sleep(starting_delay(case, comm.rank))
    returned = function(StudentCommunicator(comm), view, **case.options)
    return outcome_of(
        memory,
        before,
        ours,
        returned=_tensors(returned),
        returned_is_other=_is_other_tensor(returned, ours),
        returned_type=type(returned).__name__,
        moved=_flat_copy(view) if _is_other_tensor(view, ours) else None,
    )


def outcome_of(
    memory: torch.Tensor,
    before: torch.Tensor,
    ours: torch.Tensor,
    *,
    returned: list[torch.Tensor] | None,
    returned_is_other: bool,
    returned_type: str,
    moved: torch.Tensor | None,
) -> Outcome:
    """The outcome of a call.

    Args:
        memory, before: the memory after and before the call.
        ours: the view of `memory` in which the result is expected.
        returned: the tensors that the function returned, flattened, if it returned a tensor or a list of them.
        returned_is_other: whether it returned a single tensor whose memory is not that of `ours`.
        returned_type: the name of the type of what it returned.
        moved: contents of the argument, flattened, if the function pointed it at new memory, else None.
    """
    return Outcome(
        values=ours.flatten().clone(),
        returned=returned[0] if returned and returned_is_other else None,
        returned_type=returned_type,
        moved=moved,
        strayed=_wrote_beside(memory, before, ours),
        result=returned,
    )


def simulate_case(
    comm: Communicator, packed: bytes, case: Case, timeout: float
) -> tuple[list[Outcome], Trace, RankError | None]:
    """Run a case on simulated ranks, all of them inside this one rank's process, at most `timeout` seconds.

    Returns:
        The outcomes by rank (none if there was an error), the messages, and the error of the run.
    """
    world = SimulatedWorld(case.world_size, record=True)
    try:
        return world.run(run_case, packed, case, timeout=timeout), world.trace, None
    except RankError as error:
        return [], world.trace, error


def starting_delay(case: Case, rank: int) -> float:
    """Seconds after which a rank begins: the ranks follow each other in a shuffled order, fixed for each case."""
    ranks = list(range(case.world_size))
    random.Random(case.title).shuffle(ranks)
    return _APART * ranks.index(rank)


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
