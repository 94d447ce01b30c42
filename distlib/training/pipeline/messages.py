"""Activations and gradients between the ranks of a pipeline, in whatever order a schedule has.

    the action before       ┌─ post the receive for the next action ─┐
    this action             │  compute …                             │  the message arrives meanwhile
    the next action         └──────────────── wait for it ───────────┘

Nothing here can deadlock. Sends never block, and a rank waits only for what an action needs: if the schedule can be
executed at all, that is sent. Only a few receives are posted ahead, since each has a buffer.

A send keeps its tensor until it is over. No message says when that is, but the next one from the same rank does: what
that rank had to receive before it could produce this message, it has received.

Each message is one microbatch's output or its gradient: as many bytes as that tensor has. A microbatch costs one
message forward and one backward per boundary between two stages on different ranks.
"""

from __future__ import annotations

import torch

from distlib.communicator import Communicator, Work
from distlib.training.pipeline.plan import PipelinePlan
from distlib.training.pipeline.shapes import Forms
from distlib.training.schedules.actions import FORWARD, Action


class Messages:
    """The messages of one rank in one step.

    Args:
        comm: of this rank.
        plan: what needs what.
        forms: what travels.
        ahead: for how many coming actions receives are posted, besides the one that is about to run.
    """

    def __init__(self, comm: Communicator, plan: PipelinePlan, forms: Forms, ahead: int = 1) -> None:
        self._comm, self._plan, self._forms = comm, plan, forms
        self._own = plan.rows[comm.rank]
        self._posted = 0  # for how many of them what they receive has been posted
        self._ahead = ahead
        self._receiving: dict[Action, tuple[Work, torch.Tensor]] = {}
        self._sending: dict[
            int, list[tuple[int, Work, torch.Tensor]]
        ] = {}  # by rank: position of the action that needs it
        self._local: dict[Action, torch.Tensor] = {}  # between two stages of this rank

    def receive(self, action: Action) -> torch.Tensor | None:
        """What `action` needs from another stage; None if it needs nothing. Blocks until it is here."""
        self._post_up_to(self._plan.position[action] + 1 + self._ahead)
        source = self._plan.source.get(action)
        if source is None:
            return None
        if source in self._local:
            return self._local.pop(source)
        work, tensor = self._receiving.pop(action)
        work.wait()
        self._forget_sends(source)
        return tensor

    def send(self, action: Action, result: torch.Tensor) -> None:
        """Send what `action` has produced to the stage that needs it, and return at once."""
        target = self._plan.target.get(action)
        if target is None:
            return
        rank = self._plan.rank_of[target.stage]
        if rank == self._comm.rank:
            self._local[action] = result
            return
        work = self._comm.isend(result, rank, self._plan.tag(action))
        self._sending.setdefault(rank, []).append((self._plan.position[target], work, result))

    def finish(self) -> None:
        """Wait until every message has been taken."""
        for sends in self._sending.values():
            for _, work, _ in sends:
                work.wait()
        self._sending = {}

    def _post_up_to(self, position: int) -> None:
        for action in self._own[self._posted : position]:
            self._post(action)
        self._posted = max(self._posted, position)

    def _post(self, action: Action) -> None:
        source = self._plan.source.get(action)
        if source is None or self._plan.rank_of[source.stage] == self._comm.rank:
            return
        forms = self._forms.inputs if action.kind == FORWARD else self._forms.outputs
        tensor = self._forms.of(forms, action.stage, action.microbatch).empty(self._comm.device)
        work = self._comm.irecv(tensor, self._plan.rank_of[source.stage], self._plan.tag(source))
        self._receiving[action] = work, tensor

    def _forget_sends(self, source: Action) -> None:
        """A result has come: its rank has taken everything that it needed before. Waiting for that takes no time."""
        rank, position = self._plan.rank_of[source.stage], self._plan.position[source]
        left = []
        for needed_at, work, tensor in self._sending.get(rank, []):
            if needed_at <= position:
                work.wait()
            else:
                left.append((needed_at, work, tensor))
        self._sending[rank] = left
