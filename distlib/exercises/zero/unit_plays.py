"""Models whose parameters are cut, unit by unit: what comes out of training, and what is there at which moment.

    unit    linear ──► (linear ──►) moment ──► tanh

Each unit has a moment in the midst of it. There it is seen, in the forward pass and in the backward pass, which units
are there whole and which bytes are alive. All bytes are counted besides those of the shards and of their gradients.
"""

from __future__ import annotations

import re
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from distlib.checks.plays.bytes_alive import LiveBytes
from distlib.checks.plays.gated import PassGate
from distlib.checks.plays.layers import linear
from distlib.communicator import Communicator

INSIDE_BACKWARD = True  # messages are sent there; and ranks are threads, since torch shows the operations of a thread

_READS_NOTHING = {f"aten::{name}" for name in ("new_empty", "new_zeros", "new_ones", "empty_like", "zeros_like")}
Note = Callable[[str, int], None]  # which pass, and which unit


class UnitMoment(torch.autograd.Function):
    """Hands on what it is given, and notes that the pass has come here."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, note: Note, number: int) -> torch.Tensor:
        """`values`, any shape. Notes "forward", and later "backward"."""
        ctx.note = lambda: note("backward", number)
        note("forward", number)
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient, as it comes."""
        ctx.note()
        return gradients[0], None, None


class MomentUnit(torch.nn.Module):
    """Linear layers, the last one with a moment, and a tanh. What computes first is registered last.

    Args:
        parameters: the weight of each layer and its bias, if it has one, as they are registered.
        note: of moments.
        number: of the unit.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], note: Note, number: int) -> None:
        super().__init__()
        follows = zip(parameters, [*parameters[1:], None], strict=True)
        pairs = [(each, after) for each, after in follows if each.dim() == 2]
        self.layers = torch.nn.ModuleList(
            linear(weight, None if after is None or after.dim() == 2 else after) for weight, after in pairs
        )
        self._note, self._number = note, number

    def forward(self, values: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        """Of [samples, features], and more that is added to it: [samples, outputs]."""
        for each in more:
            values = values + each
        for layer in reversed(self.layers):
            values = layer(values)
        passed: torch.Tensor = UnitMoment.apply(values, self._note, self._number)
        return torch.tanh(passed)


class UnitModel(torch.nn.Module):
    """Units, one after the other, and twice what comes out of them. What computes first is registered last.

    It takes one tensor or several, whose sum goes in. So does each unit: what it is given besides are multiples of
    each sample's average.

    Args:
        parameters: of each unit.
        note: of moments.
        tensors: how many each unit takes.
    """

    def __init__(
        self,
        parameters: Iterable[Sequence[torch.Tensor]],
        note: Note = lambda kind, number: None,
        tensors: int = 1,
    ) -> None:
        super().__init__()
        self._tensors = tensors
        units = [MomentUnit(own, note, number) for number, own in enumerate(parameters)]
        self.registered = torch.nn.ModuleList(reversed(units))

    @property
    def units(self) -> list[torch.nn.Module]:
        """In the order in which they compute."""
        return list(reversed(self.registered))

    def forward(self, values: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
        """Outputs; shape [samples, outputs of the last unit]."""
        for each in more:
            values = values + each
        for unit in self.units:
            values = unit(values, *(k * values.mean(-1, keepdim=True) for k in range(1, self._tensors)))
        return 2 * values


class UnitWatch(LiveBytes):
    """Counts bytes besides those of shards, and lets nobody read memory that was freed: that could end the process.

    Args:
        given: as of `LiveBytes`.

    Attributes:
        own: the shards, and the bytes that each of them should have. So many do not count, and as many for its gradient
            if there is one.
    """

    def __init__(self, given: Iterable[torch.Tensor]) -> None:
        self.own: list[tuple[torch.Tensor, int]] = []
        self._kept = 0
        super().__init__(given)

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not operation.is_view and operation.name().partition(".")[0] not in _READS_NOTHING:
            for each in args:
                _refuse_freed(each)
        return super().__torch_dispatch__(operation, types, args, kwargs)

    def now(self) -> int:
        """The bytes that are alive, besides shards, their gradients, and what is kept."""
        own = sum(nbytes * (1 + (shard.grad is not None)) for shard, nbytes in self.own)
        return super().now() - own - self._kept

    def keep(self, tensor: torch.Tensor | None) -> torch.Tensor | None:
        """A copy for the judge, which does not count."""
        if tensor is None:
            return None
        self._kept += tensor.nbytes
        return tensor.detach().clone()


def _refuse_freed(tensor: Any) -> None:
    """Raise a RuntimeError if a tensor's memory has gone."""
    for each in tensor if isinstance(tensor, list | tuple) else [tensor]:
        if isinstance(each, torch.Tensor) and each.numel() and not each.untyped_storage().nbytes():
            raise RuntimeError(f"memory that was freed is read: a tensor of shape {list(each.shape)}")


class _OwnParameters:
    """The parameters that a unit has before anybody changes it: later a shard may be one of its parameters, too.

    Nothing is kept alive by this.
    """

    def __init__(self, unit: torch.nn.Module) -> None:
        self._parameters = [weakref.ref(each) for each in unit.parameters()]
        self._nbytes = sum(each.nbytes for each in unit.parameters())

    def _now(self) -> list[torch.nn.Parameter]:
        return [each for each in (reference() for reference in self._parameters) if each is not None]

    @property
    def are_there(self) -> bool:
        """Whether all of them have memory."""
        return _held(self._now()) >= self._nbytes

    @property
    def have_gradients(self) -> bool:
        """Whether one of them has."""
        return any(each.grad is not None for each in self._now())


class _UnitTraining:
    """A model that a student's module trains, and what is seen of it.

    Args:
        comm: of the rank.
        given: see `shard`.

    Attributes:
        model: the model.
        told: see `shard`.
    """

    def __init__(self, comm: Communicator, given: dict[str, Any]) -> None:
        self._comm, self._given = comm, given
        self.model = UnitModel(given["parameters"], self.note, given["tensors"])
        self._units = [_OwnParameters(unit) for unit in self.model.units]
        self._notes: dict[str, list[dict[str, Any]]] = {"forward": [], "backward": []}
        self.told: dict[str, Any] = {"passes": [], "gradients": []}

    def __deepcopy__(self, memo: dict[int, Any]) -> _UnitTraining:
        """There is one, also for a copy of the model, which notes its moments here."""
        return self

    def wrap(self, function: Callable[..., Any], watch: UnitWatch) -> None:
        """Make `function(comm, module, units)`, and look at its shards."""
        self._watch, self._wrapped = watch, function(self._comm, self.model, self.model.units)
        _check_shards(self._wrapped, len(self._units))
        watch.own += zip(self._wrapped.shards, self._given["shard_bytes"], strict=True)
        self.told["shards"] = [watch.keep(shard) for shard in self._wrapped.shards]
        self.told["held"] = _held(self._wrapped.shards)

    def note(self, kind: str, number: int) -> None:
        """What there is at the moment of a unit."""
        self._notes[kind].append({"unit": number, **self._seen(self._given["most_with"][number])})

    def _seen(self, most: int) -> dict[str, Any]:
        units = list(enumerate(self._units))
        return {
            "there": [number for number, unit in units if unit.are_there],
            "gradients": [number for number, unit in units if unit.have_gradients],
            "alive": self._watch.settled(most),
        }

    def step(self, number: int) -> None:
        """Some passes, the optimizer, and perhaps an evaluation."""
        batches = self._given["steps"][number]
        for batch in batches["passes"]:
            self._pass(batch)
        self.told["gradients"].append([self._watch.keep(shard.grad) for shard in self._wrapped.shards])
        self._descend()
        if batches["evaluation"] is not None:
            self._evaluate(batches["evaluation"])

    def _pass(self, batch: dict[str, Any]) -> None:
        self._watch.forget_peak()
        output = self._forward(batch["xs"])
        kept = self._watch.keep(output)
        torch.nn.functional.mse_loss(output, batch["y"]).backward()
        del output
        self._end({"kind": "training", "output": kept, "peak": self._watch.peak})

    def _evaluate(self, xs: Sequence[torch.Tensor]) -> None:
        self._watch.forget_peak()
        with torch.no_grad():
            output = self._forward(xs)
        kept = self._watch.keep(output)
        del output
        self._end({"kind": "evaluation", "output": kept, "peak": self._watch.peak})

    def _forward(self, xs: Sequence[torch.Tensor]) -> torch.Tensor:
        self._notes["forward"], self._notes["backward"] = [], []
        output: torch.Tensor = self._wrapped(*(x.clone() for x in xs))
        return output

    def _end(self, told: dict[str, Any]) -> None:
        self._comm.barrier()  # no message is under way any more
        self.told["passes"].append({**told, **self._notes, "end": self._seen(self._given["most_between"])})

    def _descend(self) -> None:
        with torch.no_grad():
            for shard in self._wrapped.shards:
                if shard.grad is not None:
                    shard -= self._given["rate"] * shard.grad
                shard.grad = None


def _check_shards(wrapped: Any, number: int) -> None:
    shards = wrapped.shards
    if not isinstance(shards, list | tuple | torch.nn.ParameterList) or len(shards) != number:
        raise TypeError("expected shards to be a list with a torch.nn.Parameter for each unit")
    if not all(isinstance(each, torch.nn.Parameter) for each in shards):
        raise TypeError("expected each of the shards to be a torch.nn.Parameter")


def _held(tensors: Iterable[torch.Tensor]) -> int:
    """The bytes of all the memory that tensors hold, each once."""
    memory = {id(each): each for each in (tensor.untyped_storage() for tensor in tensors)}
    return sum(each.nbytes() for each in memory.values())


def shard(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> dict[str, Any]:
    """Make `function(comm, module, units)` and train it for some steps.

    Args:
        inputs: "sets": for each model "parameters" of its units, how many "tensors" each takes, the "shard_bytes" of
            the units, the "rate" of learning, the bytes that may be alive besides ("most_with" each unit, and
            "most_between" passes), and by step the batches of its "passes", xs and y, and the xs of its "evaluation".
            Several models are made first, and then make their steps in turn.

    Returns:
        "sets": by model "shards" as they are made, and the bytes that they hold ("held"); "passes", see below; and
        "gradients" of the shards, by step.

        Of each pass, evaluations among them: "kind", "output", the notes of the "forward" and "backward" pass, the most
        bytes that were alive ("peak"), and what is there at the "end". A note says which "unit" computes, which are
        "there" whole, which have whole "gradients", and how many bytes are "alive".
    """
    warnings.filterwarnings("ignore", module=re.escape(__name__))  # about lines of this file: no student knows them
    trainings = [_UnitTraining(comm, given) for given in inputs["sets"]]
    with UnitWatch(parameter for training in trainings for parameter in training.model.parameters()) as watch:
        for training in trainings:
            training.wrap(function, watch)
        for number in range(len(inputs["sets"][0]["steps"])):
            for training in trainings:
                training.step(number)
    return {"sets": [training.told for training in trainings]}
