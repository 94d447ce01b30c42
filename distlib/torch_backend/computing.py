"""Computing that takes its time: in virtual time a rank's clock goes on by what each of torch's operations costs.

    with torch_distributed(comm) as dist, charge_computing(comm, flops_per_second=200e12):
        …                                          a training program of plain torch

Each matrix product, convolution and attention, of a forward and of a backward pass, takes FLOPs / flops_per_second.
torch has the formulas (`torch.utils.flop_counter`), in which a multiplication and an addition are two. All other
operations cost nothing: sums, activations, normalizations, copies, the optimizer, and torch's own Python. Real hardware
is slower by these, and by what it reads and writes; so take a rate that a whole model has been seen to reach.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import flop_counter

from distlib.arguments import check_number, described
from distlib.communicator import Communicator
from distlib.worlds.private_torch import ATTENTION_ON_CPU, ATTENTION_ON_GPU, DispatchMode
from distlib.worlds.simulated.simulator import SimulatedCommunicator

_PASSES_ON = True  # see worlds.call_site

_USUAL_DISPATCH = torch.Tensor.__torch_dispatch__
_FORMULAS = {**flop_counter.flop_registry}
for _on_cpu, _on_gpu in zip(ATTENTION_ON_CPU, ATTENTION_ON_GPU, strict=True):
    _FORMULAS.setdefault(_on_cpu, _FORMULAS[_on_gpu])


@contextlib.contextmanager
def charge_computing(comm: Communicator, *, flops_per_second: float) -> Iterator[None]:
    """Inside a simulated rank: in this block computing takes the time of its FLOPs; see the module for which.

    It is seen as `comm.sleep` is, so stragglers and jitter of the cluster apply.

    Args:
        flops_per_second: of one rank, such as 200e12.

    Raises:
        ValueError: a rate that is not above 0, or no communicator of a SimulatedWorld: real ranks have a real clock.
    """
    check_number("charge_computing", "flops_per_second", flops_per_second, above=0)
    if not isinstance(comm, SimulatedCommunicator):
        raise ValueError(f"charge_computing needs the communicator of a SimulatedWorld, got {described(comm)}")
    with _Charge(comm, flops_per_second):
        yield


class _Charge(DispatchMode):
    """Sees each operation of its thread, and lets the clock go on for it."""

    def __init__(self, comm: Communicator, flops_per_second: float) -> None:
        super().__init__()
        self._comm, self._rate = comm, flops_per_second

    def __torch_dispatch__(
        self, function: Any, types: Sequence[Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        special = [kind.__name__ for kind in types if kind.__torch_dispatch__ is not _USUAL_DISPATCH]
        if "FakeTensor" in special:  # DTensor asks for the shape of a result: nothing is computed
            return function(*args, **kwargs)
        if special:  # a DTensor, whose part on this rank comes by again
            return NotImplemented
        formula = _FORMULAS.get(function.overloadpacket)
        if formula is None and torch.is_inference_mode_enabled():  # there torch shows linear, not what it is made of
            with self:
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = function(*args, **kwargs)
        if formula is not None:
            self._comm.sleep(formula(*args, **kwargs, out_val=result) / self._rate)
        return result
