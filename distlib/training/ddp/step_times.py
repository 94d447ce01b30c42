"""When a rank computes and when it communicates, within one training step, and how much of the two overlaps.

forward          ▒▒▒▒▒▒
backward                ▒▒▒▒▒▒▒▒▒▒▒▒
communication               ▒▒▒▒▒▒▒▒▒▒▒▒▒▒        hidden below the backward pass; waited for after it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from distlib.arguments import checked
from distlib.communicator import Communicator
from distlib.training.ddp.reducer import AllReduce, summing
from distlib.worlds.private_torch import at_end_of_backward


@dataclass(frozen=True)
class Span:
    """Something that a rank did from `start` to `end`, in seconds of its clock.

    Attributes:
        kind: "forward", "backward" or "communication".
        name: of the layer, or of the bucket.
    """

    kind: str
    name: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class StepTimes:
    """One step of one rank.

    Attributes:
        start, end: of the step, in seconds of the rank's clock.
        spans: what it did meanwhile, in the order of their ends.
    """

    start: float
    end: float
    spans: Sequence[Span]

    @property
    def seconds(self) -> float:
        """How long the step took."""
        return self.end - self.start

    def of(self, *kinds: str) -> list[Span]:
        """The spans of these kinds, in the order of their starts."""
        return sorted((span for span in self.spans if span.kind in kinds), key=lambda span: span.start)

    @property
    def computing(self) -> float:
        """Seconds in which the rank computed."""
        return sum(span.seconds for span in self.of("forward", "backward"))

    @property
    def communicating(self) -> float:
        """Seconds in which gradients were under way."""
        return sum(span.seconds for span in self.of("communication"))

    @property
    def hidden(self) -> float:
        """Seconds in which gradients were under way while the rank computed."""
        return sum(
            max(0.0, min(one.end, other.end) - max(one.start, other.start))
            for one in self.of("forward", "backward")
            for other in self.of("communication")
        )

    @property
    def hideable(self) -> float:
        """Seconds of communication that could be hidden at best, with these buckets and this backward pass.

        The last bucket is complete only when the backward pass is over, so a rank always waits for its communication.
        The others can be hidden from the moment when the first one is complete to the end of the backward pass.
        """
        communication, backward = self.of("communication"), self.of("backward")
        if len(communication) < 2 or not backward:
            return 0.0
        room = max(span.end for span in backward) - communication[0].start
        return max(0.0, min(sum(span.seconds for span in communication[:-1]), room))


class StepClock:
    """Notes what one rank does in a step. In virtual time it also makes computing take time.

        clock = StepClock(comm, model, seconds={"0": 2e-3, "2": 1e-3})
        ddp = DistributedDataParallel(comm, model, algorithm=clock.noted("ring"))
        with clock.step():
            loss(ddp(images)).backward()
        clock.steps[-1].hidden

    Args:
        comm: its clock is used: wall clock in a World, virtual clock in a SimulatedWorld.
        module: each of its modules that has no parts is a layer. It must return one tensor.
        seconds: for a SimulatedWorld: by name of the layer, how long its forward pass takes; layers not named take no
            time. The backward pass takes twice that, since it computes the gradients of inputs and of weights, each of
            which is as much work as the forward pass. None: nothing is added to what the clock says.

    Attributes:
        steps: the steps so far.

    Raises:
        ValueError: `seconds` names a layer that does not exist.
    """

    @checked
    def __init__(self, comm: Communicator, module: nn.Module, seconds: Mapping[str, float] | None = None) -> None:
        self.steps: list[StepTimes] = []
        self._comm, self._seconds = comm, dict(seconds or {})
        self._spans: list[Span] = []
        self._backward_of: tuple[str, float] | None = None  # the layer whose backward pass runs, and since when
        layers = {name: part for name, part in module.named_modules() if not list(part.children())}
        unknown = sorted(set(self._seconds) - set(layers))
        if unknown:
            raise ValueError(f"seconds: expected layers among {', '.join(layers)}, got {', '.join(unknown)}")
        for name, layer in layers.items():
            layer.register_forward_pre_hook(partial(self._begin_forward, name))
            layer.register_forward_hook(partial(self._end_forward, name))

    @contextmanager
    def step(self) -> Iterator[None]:
        """Count everything inside the block as one step."""
        self._spans = []
        start = self._comm.time()
        yield
        self.steps.append(StepTimes(start, self._comm.time(), self._spans))

    def noted(self, algorithm: str | AllReduce) -> AllReduce:
        """An all-reduce that notes its own time. The first one of a step is called "bucket 0"."""
        sum_up = summing(algorithm)

        def sum_up_and_note(comm: Communicator, tensor: torch.Tensor) -> None:
            start = comm.time()
            sum_up(comm, tensor)
            number = sum(span.kind == "communication" for span in self._spans)
            self._note("communication", f"bucket {number}", start, comm.time())

        return sum_up_and_note

    def _note(self, kind: str, name: str, start: float, end: float) -> None:
        self._spans.append(Span(kind, name, start, end))

    def _begin_forward(self, name: str, layer: nn.Module, args: Any) -> None:
        self._forward_start = self._comm.time()

    def _end_forward(self, name: str, layer: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        self._comm.sleep(self._seconds.get(name, 0.0))
        self._note("forward", name, self._forward_start, self._comm.time())
        return _BackwardBegins.apply(output, partial(self._begin_backward, name)) if output.requires_grad else output

    def _begin_backward(self, name: str) -> None:
        """The backward pass has reached the output of a layer, so the layers after it are done."""
        if self._backward_of is None:
            at_end_of_backward(self._end_backward)
        self._end_backward()
        start = self._comm.time()
        self._comm.sleep(2 * self._seconds.get(name, 0.0))
        self._backward_of = (name, start)

    def _end_backward(self) -> None:
        if self._backward_of is not None:
            name, start = self._backward_of
            self._note("backward", name, start, self._comm.time())
        self._backward_of = None


class _BackwardBegins(torch.autograd.Function):
    """Returns its input; in the backward pass it calls a function before it passes the gradient on."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, say: Callable[[], None]) -> torch.Tensor:
        ctx.say = say
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.say()
        return gradients[0], None
