"""Forward and backward passes of one stage, microbatch by microbatch.

    forward(i, x)     x ──► layer ──► layer ──► y              keeps x, y and what autograd saved, for microbatch i
    backward(i, g)    gradient of x ◄── … ◄── g = gradient of y        adds to the gradients of the weights on its way

A backward pass in two halves is cut at the layers. The first half goes back through all of them and notes the gradient
of each layer's output; the second half uses these notes, layer by layer, and in no order:

    backward_input(i, g)      gradient of x ◄── layer ◄── layer ◄── g
    backward_weight(i)        gradients of the weights ◄── each layer by itself

So no product of matrices is computed twice where a layer is one product. A layer that is a chain of several is walked
through again in the second half.

With `recompute` only x is kept, and the forward pass runs again right before the backward pass: a third more time, and
the memory of one microbatch's activations instead of all (T. Chen et al., "Training Deep Nets with Sublinear Memory
Cost", arXiv:1604.06174). Random numbers, as in dropout, are the same the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.checkpoint import get_device_states, set_device_states

from distlib.training.pipeline.activations import ActivationMeter, Held

Function = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class _GraphPiece:
    """A part of the forward pass with a graph of its own: its input, its output, and what gradient came for that."""

    function: Function
    input: Held
    output: Held
    gradient: Held | None = None

    @property
    def weights(self) -> list[nn.Parameter]:
        module = self.function
        found = module.parameters() if isinstance(module, nn.Module) else []
        return [parameter for parameter in found if parameter.requires_grad]


@dataclass
class _Kept:
    """What a microbatch has left behind."""

    pieces: list[_GraphPiece] = field(default_factory=list)
    again: Callable[[], list[_GraphPiece]] | None = None  # recomputes the pieces


class StagePasses:
    """The passes of one stage.

    Args:
        stage: its number.
        module: the stage. Must take one tensor and return one.
        meter: counts what is kept.
        in_halves: whether backward passes come in two halves; then the stage is cut at its layers.
        recompute: keep only the input of each microbatch.
    """

    def __init__(
        self, stage: int, module: nn.Module, meter: ActivationMeter, in_halves: bool = False, recompute: bool = False
    ) -> None:
        self._stage, self._meter, self._recompute = stage, meter, recompute
        self._functions: Sequence[nn.Module] = [module]
        if in_halves and isinstance(module, nn.Sequential):
            self._functions = list(module)
        self._kept: dict[int, _Kept] = {}

    def forward(self, microbatch: int, inputs: torch.Tensor, finish: Function | None = None) -> torch.Tensor:
        """The forward pass of a microbatch. Returns the output, without a graph.

        Args:
            finish: runs after the last layer, and belongs to the pass: the loss function, on the last stage.
        """
        functions: list[Function] = [*self._functions, *([finish] if finish else [])]
        if not self._recompute:
            kept = _Kept(self._run(microbatch, functions, inputs))
            self._kept[microbatch] = kept
            return kept.pieces[-1].output.tensor.detach()
        held, before = self._meter.hold((self._stage, microbatch), inputs), _RandomState(inputs)
        with torch.no_grad():
            output = inputs
            for function in functions:
                output = function(output)
        self._kept[microbatch] = _Kept(again=lambda: self._run_again(microbatch, functions, held, before))
        return output

    def backward(self, microbatch: int, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """The whole backward pass. `gradient`: of the output; None on the last stage, whose output is the loss.

        Returns the gradient of the input; None where it has none, as on the first stage.
        """
        pieces = self._take(microbatch).pieces
        while pieces:
            piece = pieces.pop()
            if piece.output.tensor.requires_grad:
                torch.autograd.backward(piece.output.tensor, gradient)
            gradient, piece.input.tensor.grad = piece.input.tensor.grad, None
        return gradient

    def backward_input(self, microbatch: int, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """The first half: as `backward`, and the gradients of the weights are left for `backward_weight`."""
        pieces, late = self._take(microbatch).pieces, []
        while pieces:
            piece = pieces.pop()
            if gradient is None and piece.output.tensor.requires_grad:
                gradient = torch.ones_like(piece.output.tensor)
            given = gradient
            gradient = _gradient_of_input(piece, given)
            if piece.weights and given is not None:
                piece.gradient = self._meter.hold((self._stage, microbatch), given)
                late.append(piece)
            del piece, given
        self._kept[microbatch] = _Kept(late)
        return gradient

    def backward_weight(self, microbatch: int) -> None:
        """The second half: add the gradients of the weights to what is there already."""
        for piece in self._kept.pop(microbatch).pieces:
            assert piece.gradient is not None
            torch.autograd.backward(piece.output.tensor, piece.gradient.tensor, inputs=piece.weights)

    def _take(self, microbatch: int) -> _Kept:
        kept = self._kept.pop(microbatch)
        return _Kept(kept.again()) if kept.again else kept

    def _run(self, microbatch: int, functions: Sequence[Function], inputs: torch.Tensor) -> list[_GraphPiece]:
        """The forward pass, piece by piece. The first stage's inputs need no gradient."""
        key, pieces = (self._stage, microbatch), list[_GraphPiece]()
        needs_gradient = self._stage > 0
        for function in functions:
            inputs = inputs.detach()
            if needs_gradient and inputs.is_floating_point():
                inputs.requires_grad_()
            with self._meter.watch(key):
                output = function(inputs)
            pieces.append(_GraphPiece(function, self._meter.hold(key, inputs), self._meter.hold(key, output)))
            inputs, needs_gradient = output, output.requires_grad
        return pieces

    def _run_again(
        self, microbatch: int, functions: Sequence[Function], inputs: Held, random: _RandomState
    ) -> list[_GraphPiece]:
        with random.again():
            return self._run(microbatch, functions, inputs.tensor)


class _RandomState:
    """The state of the random numbers, on the CPU and where a tensor lives."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._cpu = torch.get_rng_state()
        self._devices, self._states = get_device_states(tensor)

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside the block, the numbers of then; after it, they go on as if nothing had been."""
        with torch.random.fork_rng(devices=self._devices):
            torch.set_rng_state(self._cpu)
            set_device_states(self._devices, self._states)
            yield


def _gradient_of_input(piece: _GraphPiece, gradient: torch.Tensor | None) -> torch.Tensor | None:
    inputs, output = piece.input.tensor, piece.output.tensor
    if gradient is None or not inputs.requires_grad:
        return None
    return torch.autograd.grad(output, inputs, gradient, retain_graph=bool(piece.weights))[0]
