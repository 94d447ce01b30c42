"""A unit whose parameters are there only while they are needed: the storage of its flat buffer is freed and refilled.

    freed       whole ──► no storage      model.weight ──► a placeholder: its shape, no contents
    gathered    whole ──► p p p p p p     model.weight ──► the parameter, a view of whole

Autograd saves views of a weight in the forward pass. They are views of the same storage, so they are good again as soon
as that has been refilled, before the backward pass reads them. What must never happen is that somebody reads a storage
that was freed: so the model's attributes are placeholders then, on torch's meta device.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from distlib.communicator import Communicator, Work
from distlib.training.parts_of_whole import note_part
from distlib.training.zero.shard_unit import CLIP_BY, COPY, Unit, UnitOptions, mark, shard_of
from distlib.worlds.private_torch import times_written
from distlib.worlds.simulated.rank_contexts import OUTSIDE, current_backward


class FreedUnit(Unit):
    """A `Unit` that `gather` fills and `free` empties.

    Args:
        module: the model, in which the parameters are attributes of modules.

    Attributes:
        reshard: whether it is freed after its forward pass.
        is_gathered: whether its parameters are there.
        dtypes: of the parameters that compute, and of those that stand for them in the model while they are freed.
    """

    remedy = "load_state_dict() with other values"

    def __init__(
        self,
        comm: Communicator,
        name: str,
        parameters: Mapping[str, nn.Parameter],
        options: UnitOptions,
        module: nn.Module,
    ) -> None:
        self._placeholders = {
            parameter: note_part(mark(nn.Parameter(torch.empty_like(parameter, device="meta")), COPY), comm, CLIP_BY)
            for parameter in parameters.values()
        }
        super().__init__(comm, name, parameters, options)
        self.dtypes = {each: each.dtype for pair in self._placeholders.items() for each in pair}
        self.shard = shard_of(comm, self.shard.detach().clone())  # of its own, since `whole` is to go
        self.reshard, self.is_gathered = True, True
        self._gathering: Work | None = None
        self._gathered_version = -1  # of the shard, when its contents were gathered
        self._attributes = [
            (part, attribute, parameter)
            for part in module.modules()
            for attribute, parameter in part.named_parameters(recurse=False, remove_duplicate=False)
            if parameter in self._placeholders
        ]
        self.free()

    def check_not_frozen(self) -> None:
        """Nobody may freeze a parameter that is only a stand-in. Raises RuntimeError if somebody has."""
        frozen = [key for key, each in self.parameters.items() if not self._placeholders[each].requires_grad]
        if frozen:
            raise RuntimeError(
                f"on rank {self.comm.rank} {', '.join(frozen)} was frozen after the model was sharded, and would be "
                "trained all the same: freeze parameters first, and shard the model then."
            )

    def begin_gather(self) -> None:
        """Start the all-gather in the background, if the parameters aren't there or under way."""
        if self.is_gathered or self._gathering is not None:
            return
        self._has_changed()
        self.check_untouched()
        self.whole.untyped_storage().resize_(self.layout.padded_length * self.whole.itemsize)
        self._gathered_version = times_written(self.shard)
        self._gathering = self.comm.start(_gather, super().gather)

    def gather(self) -> None:
        """Have the parameters there, as attributes of the model: wait for the all-gather, or make it.

        Raises:
            RuntimeError: the shard has changed since the forward pass, of which this is the backward pass.
        """
        if self._has_changed():
            self.free()
        self.begin_gather()
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering, self.is_gathered = None, True
            self.attach()
            for part, attribute, parameter in self._attributes:
                setattr(part, attribute, parameter)
            self._versions = self._version_counters()

    def _has_changed(self) -> bool:
        """Whether the shard has changed since it was gathered. In a backward pass it must not, so that is an error."""
        changed = self._gathered_version != times_written(self.shard)
        if changed and current_backward() != OUTSIDE and self._gathered_version >= 0:
            raise RuntimeError(
                f"the parameters of unit {self.name} have changed on rank {self.comm.rank} between a forward pass "
                "and its backward pass: call optimizer.step() after backward()"
            )
        return changed

    def refresh(self) -> None:
        """Nothing to do but to forget what was gathered: the next gather brings the new values."""
        self.free()

    def free(self) -> None:
        """Give the memory of the parameters back, if they are there; the shard stays."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        elif self.is_gathered:
            self.check_untouched()
            for part, attribute, parameter in self._attributes:
                setattr(part, attribute, self._placeholders[parameter])
            for parameter in self.parameters.values():
                parameter.data = parameter.data.new_empty(0)
        self.is_gathered = False
        self.whole.untyped_storage().resize_(0)
        self.notice("freed", self.name)

    def _version_counters(self) -> dict[str, int]:
        """Of the parameters and of their placeholders."""
        return {
            key: times_written(parameter) + times_written(self._placeholders[parameter])
            for key, parameter in self.parameters.items()
        }


def _gather(comm: Communicator, gather: object) -> None:
    assert callable(gather)
    gather()
