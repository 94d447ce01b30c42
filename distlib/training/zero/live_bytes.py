"""Which bytes are alive in a training step: an account of a rank's tensors, by kind, after every operation of torch.

    account = MemoryAccount(comm, model, optimizer)
    with account:
        loss = loss_function(model(images), labels)
        account.phase("backward")
        loss.backward()
        account.phase("step")
        optimizer.step()
    account.peak.total, account.now()["gradients"]

Nothing is estimated. torch shows each operation to the account (as a `TorchDispatchMode`), which notes the storages of
its results, in weak references, and after each operation adds up the bytes of those that are still there. What is a
parameter, a gradient, a state or a buffer the model and the optimizer can say; everything else that is alive and was
made meanwhile is counted as activations: what the backward pass needs, and what is just being computed.

What is not in it: memory that is no tensor, such as torch itself; temporary memory inside of one operation; and what
the allocator keeps although nobody uses it, see `process_memory`.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import greenlet
import torch
from torch import nn

from distlib.arguments import check_number, checked
from distlib.communicator import Communicator
from distlib.training.zero.nested import tensors_in
from distlib.training.zero.shard_unit import BUFFERS, GRADIENTS, PARAMETERS, STATES, units_of
from distlib.worlds import private_torch

_Storages = weakref.WeakValueDictionary[int, torch.UntypedStorage]  # by their id
ACTIVATIONS = "activations"
KINDS = (PARAMETERS, GRADIENTS, STATES, BUFFERS, ACTIVATIONS)


@dataclass(frozen=True)
class Sample:
    """What was alive at one moment.

    Attributes:
        phase: the part of the step.
        time: seconds of the rank's clock.
        bytes: by kind, all of `KINDS`.
    """

    phase: str
    time: float
    bytes: Mapping[str, int]

    @property
    def total(self) -> int:
        """The bytes of all kinds together."""
        return sum(self.bytes.values())


class MemoryAccount:
    """The bytes that are alive on one rank, while it is entered as a context.

    Args:
        comm: of this rank. In a SimulatedWorld it takes contexts="threads".
        model: a `FullyShardedModule`, or any other module.
        optimizer: a `ShardedOptimizer`, or one of torch; None: there is none.
        buffers: tensors for communication that neither of them knows of, such as the buckets of DDP.
        limit: the bytes that a rank may have. None: any number.

    Attributes:
        samples: in order of time; one for each change.

    Raises:
        ValueError: a limit that is not above 0.
        MemoryError: more bytes than the limit are alive; at the line that has made the last of them.
    """

    @checked
    def __init__(
        self,
        comm: Communicator,
        model: nn.Module,
        optimizer: Any = None,
        *,
        buffers: Sequence[torch.Tensor] = (),
        limit: float | None = None,
    ) -> None:
        if limit is not None:
            check_number("MemoryAccount", "limit", limit, above=0)
        self._limit = limit
        self.samples: list[Sample] = []
        self._comm, self._model, self._optimizer, self._buffers = comm, model, optimizer, list(buffers)
        self._phase = "forward"
        self._made = _Storages()  # what operations have made
        self._from_elsewhere = _Storages()  # what they were given and no operation has made
        self._watch: Any = None

    def __enter__(self) -> MemoryAccount:
        if greenlet.getcurrent().parent is not None:
            raise RuntimeError(
                "MemoryAccount needs a thread for each rank, since torch shows the operations of a thread: "
                'make the world with SimulatedWorld(…, contexts="threads")'
            )
        self._sample()
        self._watch = _OperationWatch(self)
        self._watch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._watch.__exit__(*error)
        if error[0] is None:
            self._sample()

    def phase(self, name: str) -> None:
        """Say which part of the step begins; the first is called "forward"."""
        self._sample()
        self._phase = name

    def now(self) -> dict[str, int]:
        """The bytes that are alive now, by kind."""
        named = self._named()
        kinds = {id(_storage(tensor)): kind for kind, tensors in named for tensor in tensors}
        storages = {id(each): each for _, tensors in named for each in map(_storage, tensors)} | dict(self._made)
        found = dict.fromkeys(KINDS, 0)
        for key, storage in storages.items():
            found[kinds.get(key, ACTIVATIONS)] += storage.nbytes()
        return found

    @property
    def peak(self) -> Sample:
        """The sample with the most bytes; the first, if there are several."""
        if not self.samples:
            raise RuntimeError("MemoryAccount has seen nothing yet: enter it around a step, with account: …")
        return max(self.samples, key=lambda sample: sample.total)

    def _named(self) -> list[tuple[str, list[torch.Tensor]]]:
        """Tensors whose kind is known."""
        optimizer = getattr(self._optimizer, "optimizer", self._optimizer)
        states = [] if optimizer is None else list(optimizer.state.values())
        parameters = list(self._model.parameters())
        named = [
            (PARAMETERS, [*parameters, *self._model.buffers()]),
            (GRADIENTS, [each.grad for each in parameters if each.grad is not None]),
            (STATES, [each for state in states for each in state.values() if isinstance(each, torch.Tensor)]),
            (BUFFERS, self._buffers),
        ]
        return named + [pair for unit in units_of(self._model, self._optimizer) for pair in unit.live_tensors().items()]

    def _before_operation(self, tensors: Sequence[torch.Tensor]) -> None:
        for storage in map(_storage, tensors):
            if id(storage) not in self._made:
                self._from_elsewhere[id(storage)] = storage

    def _after_operation(self, tensors: Sequence[torch.Tensor]) -> None:
        for storage in map(_storage, tensors):
            if id(storage) not in self._from_elsewhere:
                self._made[id(storage)] = storage
        self._sample()

    def _sample(self) -> None:
        found = self.now()
        if not self.samples or (self._phase, found) != (self.samples[-1].phase, self.samples[-1].bytes):
            self.samples.append(Sample(self._phase, self._comm.time(), found))
        total = sum(found.values())
        if self._limit is not None and total > self._limit:
            parts = ", ".join(f"{kind} {nbytes:,}" for kind, nbytes in found.items())
            raise MemoryError(
                f"rank {self._comm.rank} has {total:,} bytes alive, {total - self._limit:,.0f} more than the limit of "
                f"{self._limit:,.0f} allows, in the phase {self._phase}: {parts}"
            )


class _OperationWatch(private_torch.DispatchMode):
    """Shows an account the operations of this thread."""

    def __init__(self, account: MemoryAccount) -> None:
        super().__init__()
        self._account = account

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._account._before_operation(list(tensors_in((args, kwargs))))
        result = operation(*args, **(kwargs or {}))
        self._account._after_operation(list(tensors_in(result)))
        return result


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Always the same object for the same storage, as long as that is alive."""
    return tensor.untyped_storage()
