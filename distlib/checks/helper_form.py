"""How a call of a helper travels from a student's rank to the judge: all that a rank knows of it. Its code stays away.

    reduce_gradients(comm, model)       rank: the gradients of the model ──► judge: helper(comm, [gradients])
                                        rank: each is written into      ◄──  the same, as the helper has left them

Arguments travel as plain values and tensors, by their names, and so does what the helper returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.student_communicator import unwrapped
from distlib.communicator import Communicator

ITSELF = "itself"
PARAMETERS_AND_BUFFERS = "parameters and buffers"
GRADIENTS = "gradients"

_TENSORS_OF: dict[str, Callable[[Any], Any]] = {
    ITSELF: lambda tensor: tensor,
    PARAMETERS_AND_BUFFERS: lambda model: [tensor.detach() for tensor in (*model.parameters(), *model.buffers())],
    GRADIENTS: lambda model: [parameter.grad for parameter in model.parameters() if parameter.grad is not None],
}


@dataclass(frozen=True)
class HelperForm:
    """A helper without its code.

    Attributes:
        name: as the student's code calls it.
        parameters: as in a line with `def`, without annotations. A default is shown as "=", because only the helper
            knows it: ("comm", "tensor", "root=").
        in_place: the parameter that the helper changes; "" if it changes none.
        tensors: what of that parameter it changes: ITSELF, PARAMETERS_AND_BUFFERS or GRADIENTS.
    """

    name: str
    parameters: tuple[str, ...]
    in_place: str = ""
    tensors: str = ITSELF

    def __post_init__(self) -> None:
        if self.tensors not in _TENSORS_OF:
            raise ValueError(f"{self.name}: expected tensors= one of {', '.join(_TENSORS_OF)}, got {self.tensors!r}")

    @property
    def takes_comm(self) -> bool:
        """Whether it communicates. What it returns then are tensors, lists of them, or None."""
        return self.parameters[:1] == ("comm",)

    def communicator(self, given: Any) -> Communicator:
        """The communicator inside of the one that a student has handed over.

        Raises:
            TypeError: it is something else, such as the tensor, which comes second.
        """
        return unwrapped(given, *(name.strip("=") for name in self.parameters[1:2]))

    def with_tensors(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, with the tensors that the helper changes in the place of a model."""
        found = {self.in_place: _TENSORS_OF[self.tensors](given[self.in_place])} if self.in_place in given else {}
        return {**given, **found}

    def changed(self, given: Mapping[str, Any]) -> list[torch.Tensor]:
        """Of arguments that `with_tensors` has made, the tensors that the helper changes; without what is none."""
        value = given.get(self.in_place, [])
        each = value if isinstance(value, list) else [value]
        return [tensor for tensor in each if isinstance(tensor, torch.Tensor)]
