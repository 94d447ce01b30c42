"""A unit: parameters that share one flat buffer, and are gathered, averaged and freed together.

    whole        p p p p p p p p p p 0 0        the parameters are views of it: on every rank, or only while needed
    shard              p p p                    this rank's part, in the precision that the optimizer works in
    shard.grad         g g g                    its gradient, averaged over the ranks
    states             m m m   v v v            which the optimizer makes for the shard, and for nothing else

One all-gather gives every rank the whole buffer; one reduce-scatter gives it the average of its part of the gradients.
In a ring each sends (N−1)/N of the buffer, so both together send as much as one all-reduce of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from distlib.collectives import all_gather, broadcast, reduce_scatter
from distlib.communicator import Communicator, ReduceOp, Work
from distlib.training.parts_of_whole import note_part
from distlib.training.same_parameters import check_dense
from distlib.training.zero.flat_buffer import FlatLayout
from distlib.worlds.private_torch import times_written

Notice = Callable[[str, str], object]
"""Is told what happens to a unit: ("gathered", "blocks.0")."""


PARAMETERS, GRADIENTS, STATES, BUFFERS = "parameters", "gradients", "optimizer states", "communication buffers"


SHARD, COPY = "shard", "copy"


def role_of(parameter: torch.Tensor) -> str | None:
    """What a parameter is to a unit: a rank's shard, or a copy that is a part of the model. None: neither."""
    return getattr(parameter, "zero_role", None)


CLIP_BY = "clip_grad_norm(max_norm) of the FullyShardedModule, or of the ShardedOptimizer"


def shard_of(comm: Communicator, tensor: torch.Tensor) -> nn.Parameter:
    """The parameter that the optimizer of this rank is given."""
    return note_part(mark(nn.Parameter(tensor), SHARD), comm, CLIP_BY)


def mark(parameter: nn.Parameter, role: str) -> nn.Parameter:
    """Note what a parameter is; returns it."""
    parameter.zero_role = role  # type: ignore[attr-defined]
    return parameter


@dataclass(frozen=True)
class UnitOptions:
    """How units store and send.

    Attributes:
        param_dtype: of the parameters that the model computes with, and of all-gathers; None: that of the model.
        reduce_dtype: in which gradients are averaged; None: that of the model.
        all_gather, reduce_scatter: algorithms of these collectives.
    """

    param_dtype: torch.dtype | None = None
    reduce_dtype: torch.dtype | None = None
    all_gather: str = "ring"
    reduce_scatter: str = "ring"


class Unit:
    """The parameters of a unit. All of them are always there, as views of one buffer; gradients come and go.

    Args:
        comm: of this rank.
        name: for messages.
        parameters: by name, at least one, all of one dtype, all to be trained; their values become those of rank 0.
        options: see `UnitOptions`.

    Attributes:
        layout: of the flat buffers.
        whole: the parameters of the model, flat, in `param_dtype`.
        shard: this rank's part, in the dtype that the model had: what the optimizer is given. Where `whole` has the
            same dtype, it is a view of it.
        gradients: the flat buffer of gradients on their way to the other ranks; None if there are none.
    """

    remedy = "take_parameters() of the optimizer, on every rank, after the change"  # for parameters that were changed

    def __init__(
        self, comm: Communicator, name: str, parameters: Mapping[str, nn.Parameter], options: UnitOptions
    ) -> None:
        self.name, self.parameters, self.options = name, dict(parameters), options
        self.comm = comm
        self.layout = FlatLayout({key: each.shape for key, each in parameters.items()}, comm.world_size)
        flat = self.layout.flatten(self.parameters)
        broadcast(comm.within(f"broadcast of unit {name}"), flat)
        own = self.layout.shard(flat, comm.rank)
        self.whole = flat.to(options.param_dtype or flat.dtype)
        self.shard = shard_of(comm, own.data if self.whole is flat else own.clone())
        self.reduce_dtype = options.reduce_dtype or flat.dtype
        self.gradients: torch.Tensor | None = None
        self._slots: dict[nn.Parameter, torch.Tensor] = {}  # where each gradient goes, in `gradients`
        self._missing = set(self.parameters.values())  # whose gradients have not come yet
        self._averaging: Work | None = None
        self.notice: Notice = lambda event, name: None
        for parameter in self.parameters.values():
            note_part(mark(parameter, COPY), comm, CLIP_BY)
        self.attach()
        self._versions = self._version_counters()

    def attach(self) -> None:
        """Let the parameters be views of `whole`."""
        for key, view in self.layout.views(self.whole).items():
            self.parameters[key].data = view.data  # not the view itself, whose version counter is that of `whole`

    # ── parameters ───────────────────────────────────────────────────────────────────────────────────────────────────

    def gather(self) -> None:
        """Give every rank the shards of all others: after it, `whole` is up to date everywhere."""
        self.check_untouched()
        self.layout.shard(self.whole, self.comm.rank).data.copy_(self.shard)
        named = self.comm.within(f"all_gather of unit {self.name}")
        all_gather(named, self.whole.data, self.options.all_gather)
        self.notice("gathered", self.name)

    def refresh(self) -> None:
        """The shard has other values, such as after loading: have them in the parameters, on every rank."""
        self.gather()

    @torch.no_grad()
    def take_parameters(self) -> None:
        """Let the shard have the values that the parameters have now."""
        self.shard.copy_(self.layout.shard(self.whole, self.comm.rank))
        self._versions = self._version_counters()

    def check_untouched(self) -> None:
        """Nobody may write into the parameters of the model, which are only copies.

        Raises:
            RuntimeError: somebody has, since the last call. Writing into `parameter.data` can't be seen.
        """
        noted, now = self._versions, self._version_counters()
        self._versions = now
        for key, before in noted.items():
            if now[key] != before:
                raise RuntimeError(
                    f"{key} was changed in place on rank {self.comm.rank}, where it is only a copy of what the ranks "
                    f"keep in shards, so the change would be lost. Change the model before it is sharded, or call "
                    f"{self.remedy}."
                )

    def _version_counters(self) -> dict[str, int]:
        """How often each parameter has been written to."""
        return {key: times_written(parameter) for key, parameter in self.parameters.items()}

    # ── gradients ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_all_gradients(self) -> bool:
        """Whether every parameter has handed over its gradient."""
        return not self._missing

    @torch.no_grad()
    def take_gradient(self, parameter: nn.Parameter, keep: bool = False) -> None:
        """Move a parameter's gradient into the flat buffer; `parameter.grad` is None afterwards.

        Args:
            keep: only note that it has come, and leave it where it is.

        Raises:
            RuntimeError: the parameter has handed over a gradient in this backward pass before.
        """
        is_first = parameter in self._missing
        self._missing.discard(parameter)
        if keep:
            return
        if not is_first:
            name = next(key for key, each in self.parameters.items() if each is parameter)
            raise RuntimeError(
                f"on rank {self.comm.rank} a second gradient came for {name} in one backward pass. Does a layer "
                "compute twice under reentrant checkpointing? Then call checkpoint(…, use_reentrant=False)."
            )
        if self.gradients is None:
            self.gradients = torch.zeros(self.layout.padded_length, dtype=self.reduce_dtype, device=self.whole.device)
            views = self.layout.views(self.gradients)
            self._slots = {self.parameters[key]: view for key, view in views.items()}
        assert parameter.grad is not None
        check_dense(self.parameters, parameter)
        self._slots[parameter].copy_(parameter.grad)
        parameter.grad = None

    def begin_averaging(self) -> None:
        """Start the reduce-scatter of the gradients, in the background."""
        assert self.gradients is not None and self._averaging is None
        self._averaging = self.comm.start(self._reduce_scatter, self.gradients)

    def _reduce_scatter(self, comm: Communicator, flat: torch.Tensor) -> None:
        named = comm.within(f"reduce_scatter of unit {self.name}")
        reduce_scatter(named, flat, ReduceOp.AVG, self.options.reduce_scatter)

    @torch.no_grad()
    def finish_averaging(self) -> None:
        """Wait for the reduce-scatter, add this rank's part to the shard's gradient, and free the rest."""
        if self._averaging is None:
            return
        assert self.gradients is not None
        self._averaging.wait()
        own = self.layout.shard(self.gradients, self.comm.rank).to(self.shard.dtype, copy=True)
        self.shard.grad = own if self.shard.grad is None else self.shard.grad.add_(own)
        self.forget_gradients()
        self.notice("averaged", self.name)

    def live_tensors(self) -> dict[str, list[torch.Tensor]]:
        """Its tensors by kind. Where the parameters have less precision, the shard is a state of the optimizer."""
        gradients = [each.grad for each in (self.shard, *self.parameters.values()) if each.grad is not None]
        own = PARAMETERS if self.shard.dtype == self.whole.dtype else STATES
        under_way = [] if self.gradients is None else [self.gradients]
        parameters = [self.whole] + [self.shard] * (own == PARAMETERS)
        return {
            PARAMETERS: parameters,
            STATES: [self.shard] * (own == STATES),
            GRADIENTS: gradients,
            BUFFERS: under_way,
        }

    def forget_gradients(self) -> None:
        """Drop the flat buffer, and expect the gradients of the next backward pass."""
        self.gradients, self._averaging = None, None
        self._slots, self._missing = {}, set(self.parameters.values())

    def check_gradients(self, reached: bool = False) -> None:
        """Check that every parameter has handed over its gradient, or none has.

        Args:
            reached: the backward pass has come here, so that none is too few.

        Raises:
            RuntimeError: with the parameters that have none.
        """
        names = [key for key, parameter in self.parameters.items() if parameter in self._missing]
        if names and (reached or len(names) < len(self.parameters)):
            self.forget_gradients()
            raise without_gradient(self.comm, names)


def without_gradient(comm: Communicator, names: list[str]) -> RuntimeError:
    """The error for parameters that a backward pass has left out."""
    return RuntimeError(
        f"on rank {comm.rank} the backward pass produced no gradient for {', '.join(names)}, which the other ranks "
        "wait for. The loss must depend on every parameter, on every rank; freeze those that are not to be trained "
        "before the model is sharded, with parameter.requires_grad_(False). If a layer is under reentrant "
        "checkpointing, call checkpoint(…, use_reentrant=False)."
    )


def units_of(module: nn.Module, optimizer: Any = None) -> list[Unit]:
    """The units that a sharded model or its optimizer has; an empty list for others."""
    units: list[Unit] = getattr(module, "units", None) or getattr(optimizer, "units", [])
    return units
