"""A step of a stage as a list of actions: pure, so that it can be counted, printed, and played by shapes alone.

    step_plan(3)   G0 W0 G1 F0 X0   W1 G2 F1 X1   W2 F2 X2   G2 W2 G1 B2 R2 X2   W1 G0 B1 R1 A2 X1   W0 B0 R0 A1 X0 A0

    G gather: begin the all-gather     F forward     R reduce: begin the reduce-scatter     X free the parameters
    W wait for the all-gather          B backward    A have the average: wait for it       U update this rank's shards

`FullyShardedModule` does the same, driven by torch's hooks. A model of 175 billion parameters on 1,024 ranks has no
room here, but its step can be played: `play_step` sends messages of the right sizes, without contents, in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from distlib.arguments import check_integer, checked
from distlib.collectives import all_gather, reduce_scatter
from distlib.communicator import Communicator, Work
from distlib.partition import without_contents
from distlib.training.zero.flat_buffer import FlatLayout

GATHER, WAIT, FORWARD, FREE, BACKWARD, REDUCE, AVERAGE, UPDATE = "GWFXBRAU"
_NAMES = {
    GATHER: "all-gather",
    FORWARD: "forward",
    BACKWARD: "backward",
    REDUCE: "reduce-scatter",
    UPDATE: "update",
}

Note = Callable[[str, str, float, float], object]


class UnitAction(NamedTuple):
    """What a rank does to a unit. `kind` is one of the letters in the text of this module."""

    kind: str
    unit: int

    def __str__(self) -> str:
        return f"{self.kind}{self.unit}"


def step_plan(
    num_units: int, *, reshard_after_forward: bool | None = None, prefetch: bool = True, root: bool = False
) -> list[UnitAction]:
    """The actions of one rank in a step of stage 3, in their order; the same on every rank.

    Args:
        num_units: at least 1.
        reshard_after_forward, prefetch: as of `FullyShardedModule`.
        root: whether unit 0 is the root's, which is there from the beginning to the end of both passes. In the plan it
            computes first in the forward pass and last in the backward pass.

    Raises:
        ValueError: no unit.
    """
    check_integer("step_plan", "num_units", num_units, 1)
    keeps = [
        root and unit == 0 if reshard_after_forward is None else not reshard_after_forward for unit in range(num_units)
    ]
    plan = _StepPlan()
    for unit in range(num_units):
        plan.gather(unit)
        if prefetch and unit + 1 < num_units:
            plan.begin_gather(unit + 1)
        plan.add(FORWARD, unit)
        if not keeps[unit] and not (root and unit == 0):
            plan.free(unit)
    if root and not keeps[0]:
        plan.free(0)
    _plan_backward(plan, num_units, prefetch, root)
    return plan.actions


def _plan_backward(plan: _StepPlan, num_units: int, prefetch: bool, root: bool) -> None:
    if root:
        plan.gather(0)
        if prefetch:
            plan.begin_gather(num_units - 1)
    under_way: int | None = None
    for unit in reversed(range(num_units)):
        plan.gather(unit)
        if prefetch and unit > 0:
            plan.begin_gather(unit - 1)
        plan.add(BACKWARD, unit)
        plan.add(REDUCE, unit)
        if under_way is not None:
            plan.add(AVERAGE, under_way)
        under_way = unit
        plan.free(unit)
    plan.add(AVERAGE, 0)


def stage_plan(stage: int, num_units: int, microbatches: int = 1) -> list[UnitAction]:
    """The actions of one rank in a whole step, with its update, at stage 1, 2 or 3; the same on every rank.

    The reduce-scatter of a unit begins as soon as its gradients are there: at stage 1 in the last backward pass, at
    stages 2 and 3 in each of them. Stages 1 and 2 gather the parameters after the update, when nothing computes.

    Args:
        stage: 3 is `step_plan` with `reshard_after_forward=True` for each microbatch, and the update.
        num_units: at least 1.
        microbatches: forward and backward passes in the step, at least 1.

    Raises:
        ValueError: another stage; no unit or no microbatch.
    """
    check_integer("stage_plan", "num_units", num_units, 1)
    check_integer("stage_plan", "microbatches", microbatches, 1)
    if stage not in (1, 2, 3):
        raise ValueError(f"stage_plan: expected stage 1, 2 or 3, got {stage!r}")
    update = UnitAction(UPDATE, 0)
    if stage == 3:
        return [*step_plan(num_units, reshard_after_forward=True) * microbatches, update]
    plan = _StepPlan()
    for number in range(microbatches):
        for unit in range(num_units):
            plan.add(FORWARD, unit)
        sends = stage == 2 or number == microbatches - 1
        for unit in reversed(range(num_units)):
            plan.add(BACKWARD, unit)
            if sends:
                plan.add(REDUCE, unit)
        for unit in reversed(range(num_units) if sends else ()):
            plan.add(AVERAGE, unit)
    gathers = [UnitAction(kind, unit) for kind in (GATHER, WAIT) for unit in range(num_units)]
    return [*plan.actions, update, *gathers]


class _StepPlan:
    """Actions, and which units are gathered after them."""

    def __init__(self) -> None:
        self.actions: list[UnitAction] = []
        self._begun: set[int] = set()
        self._there: set[int] = set()

    def add(self, kind: str, unit: int) -> None:
        self.actions.append(UnitAction(kind, unit))

    def begin_gather(self, unit: int) -> None:
        if unit not in self._begun:
            self._begun.add(unit)
            self.add(GATHER, unit)

    def gather(self, unit: int) -> None:
        self.begin_gather(unit)
        if unit not in self._there:
            self._there.add(unit)
            self.add(WAIT, unit)

    def free(self, unit: int) -> None:
        self._begun.discard(unit)
        self._there.discard(unit)
        self.add(FREE, unit)


def whole_units(plan: Sequence[UnitAction]) -> int:
    """The most units whose parameters are there, or on their way, at the same time."""
    there: set[int] = set()
    most = 0
    for action in plan:
        if action.kind == GATHER:
            there.add(action.unit)
        elif action.kind == FREE:
            there.discard(action.unit)
        most = max(most, len(there))
    return most


@checked
def play_step(
    comm: Communicator,
    plan: Sequence[UnitAction],
    unit_lengths: Sequence[int],
    *,
    param_dtype: torch.dtype = torch.bfloat16,
    reduce_dtype: torch.dtype = torch.float32,
    seconds: Callable[[UnitAction], float] | None = None,
    all_gather: str = "ring",
    reduce_scatter: str = "ring",
    note: Note | None = None,
) -> float:
    """Play a plan on one rank of a SimulatedWorld, with tensors that have a shape and no contents.

    No backward pass of torch is made, so that the ranks can be greenlets, thousands of them.

    Args:
        plan: see `step_plan` and `stage_plan`.
        unit_lengths: the number of parameters of each unit.
        param_dtype: of all-gathers.
        reduce_dtype: of reduce-scatters.
        seconds: how long a FORWARD, a BACKWARD or an UPDATE takes. None: no time.
        all_gather, reduce_scatter: their algorithms; with many ranks "recursive_doubling" and "recursive_halving".
        note: called with what this rank has done, as `Span` takes it: the kind, which is "forward", "backward",
            "update", "all-gather" or "reduce-scatter", the number of the unit, when it began and when it ended.

    Returns:
        The seconds that the step took on this rank's clock.

    Raises:
        ValueError: the plan has a unit without a length.
    """
    start = comm.time()
    units = max((action.unit for action in plan), default=-1) + 1
    if units > len(unit_lengths):
        raise ValueError(f"expected a length for each of the {units} units of the plan, got {len(unit_lengths)}")
    layouts = [FlatLayout({"unit": (length,)}, comm.world_size) for length in unit_lengths]
    say = note or (lambda kind, name, start, end: None)
    work: dict[tuple[str, int], Work] = {}
    for action in plan:
        kind, unit = action
        if kind in (GATHER, REDUCE):
            dtype, algorithm = (param_dtype, all_gather) if kind == GATHER else (reduce_dtype, reduce_scatter)
            flat = without_contents(layouts[unit].padded_length, dtype)
            work[kind, unit] = comm.start(_communicate, action, flat, algorithm, say)
        elif kind in (WAIT, AVERAGE):
            work.pop((GATHER if kind == WAIT else REDUCE, unit)).wait()
        elif kind in (FORWARD, BACKWARD, UPDATE) and seconds is not None:
            begun = comm.time()
            comm.sleep(seconds(action))
            say(_NAMES[kind], str(unit), begun, comm.time())
    return comm.time() - start


_COLLECTIVES: dict[str, Callable[..., None]] = {GATHER: all_gather, REDUCE: reduce_scatter}


def _communicate(comm: Communicator, action: UnitAction, flat: torch.Tensor, algorithm: str, say: Note) -> None:
    begun = comm.time()
    _COLLECTIVES[action.kind](comm, flat, algorithm=algorithm)
    say(_NAMES[action.kind], str(action.unit), begun, comm.time())
