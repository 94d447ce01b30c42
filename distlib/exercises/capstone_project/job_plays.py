"""The job of the project: a network that learns digits, on a cluster that charges for every sample.

    weights, flat [910]    64 pixels ──► 12 hidden, tanh ──► 10 classes          W1 | b1 | W2 | b2

What a student is given has the data inside, and hands out gradients only: `gradient` passes a gate, which takes the
virtual time that computing them takes on this rank, and shows the weights to the judge. So does `loss`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from distlib.checks.plays.bytes_alive import LiveBytes
from distlib.checks.plays.gated import PassGate
from distlib.communicator import Communicator
from distlib.network.cluster import Cluster

INSIDE_BACKWARD = True  # ranks are threads, since torch shows the operations of a thread

SHAPES = ((64, 12), (12,), (12, 10), (10,))
NUMBERS = sum(map(math.prod, SHAPES))
SAMPLES, EVALUATED = 1_024, 512  # images to learn from, on all ranks together, and those that nobody learns from
BEGIN, LOSS, END = 10_001, 10_002, 10_003  # gates; a smaller one is the number of samples of a gradient
LOSS_COSTS = 5  # the loss takes as long as the gradients of this number of samples
MOST_CALLS = 400  # of gradient, and of loss, on a rank
LOOKED_AT = 4  # the call of gradient at which memory is looked at: by then, all that stays is there


def seconds_of(inputs: dict[str, Any], k: int) -> float:
    """The virtual time of a gate: that of a number of samples, or of the loss."""
    samples = {BEGIN: 0, LOSS: LOSS_COSTS, END: 0}.get(k, k)
    return samples * float(inputs["seconds_per_sample"])


class Adam:
    """An optimizer with two states for each number, both float64.

    Args:
        numbers: how many it is for.
    """

    def __init__(self, numbers: int) -> None:
        self._mean, self._square = (torch.zeros(numbers, dtype=torch.float64) for _ in range(2))
        self._steps = 0

    @torch.no_grad()
    def step(self, weights: torch.Tensor, gradient: torch.Tensor, rate: float) -> None:
        """Change `weights` in place, element by element, against the mean `gradient`; both have as many numbers as it.

        Source: D. Kingma and J. Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, arXiv:1412.6980.
        """
        if not weights.shape == gradient.shape == self._mean.shape:
            raise ValueError(
                f"an optimizer for {self._mean.numel()} numbers got weights of shape {list(weights.shape)} and a "
                f"gradient of shape {list(gradient.shape)}"
            )
        self._steps += 1
        self._mean.lerp_(gradient, 0.1)
        self._square.lerp_(gradient.square(), 0.05)
        mean, square = self._mean / (1 - 0.9**self._steps), self._square / (1 - 0.95**self._steps)
        weights -= rate * mean / (square.sqrt() + 1e-4)


def _matrices(weights: torch.Tensor) -> list[torch.Tensor]:
    parts = weights.detach().split([math.prod(shape) for shape in SHAPES])
    return [part.view(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def loss_sum(weights: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The sum of the cross entropies of images [n, 64] by flat weights."""
    into_hidden, hidden_bias, into_classes, bias = _matrices(weights)
    outputs = torch.tanh(images @ into_hidden + hidden_bias) @ into_classes + bias
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="sum")


def gradient_sum(weights: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The gradient of `loss_sum`, flat. By hand: for so few numbers autograd takes several times as long."""
    into_hidden, hidden_bias, into_classes, bias = _matrices(weights)
    hidden = torch.tanh(images @ into_hidden + hidden_bias)
    errors = torch.softmax(hidden @ into_classes + bias, dim=1)
    errors[torch.arange(len(labels)), labels] -= 1
    before = (errors @ into_classes.T) * (1 - hidden.square())
    return torch.cat([(images.T @ before).flatten(), before.sum(0), (hidden.T @ errors).flatten(), errors.sum(0)])


@dataclass(frozen=True)
class Job:
    """What there is to train, and what it costs.

    Attributes:
        cluster: the links between the ranks; `cluster.stragglers` has the slow ranks.
        numbers: of the weights, all in one flat float64 tensor.
        samples: the numbers of those that this rank has: a range. No other rank has them.
        seconds_per_sample: that the gradient of one sample takes on a rank that is not slow.
        memory: bytes that a rank may hold between two steps; math.inf for as many as it likes.
        target: the loss to reach, or to get below.
        budget: virtual seconds in which to reach it.
        start: gives the weights to start with: start().
        gradient: gradient(weights, samples) gives the SUM of the gradients of these samples' losses, shape [numbers].
        loss: loss(weights) gives the mean loss on images that nobody learns from, a float.
        optimizer: optimizer(numbers) makes an Adam for that many numbers; see `Adam`.
    """

    cluster: Cluster
    numbers: int
    samples: range
    seconds_per_sample: float
    memory: float
    target: float
    budget: float
    start: Callable[[], torch.Tensor]
    gradient: Callable[[torch.Tensor, Sequence[int]], torch.Tensor]
    loss: Callable[[torch.Tensor], float]
    optimizer: Callable[[int], Adam]


class _Desk:
    """What hands out gradients on one rank, counts the calls, and looks at the memory once."""

    def __init__(self, inputs: dict[str, Any], gate: PassGate, live: LiveBytes | None) -> None:
        self._images, self._labels = images_of(inputs["images"]), inputs["labels"]
        self.samples = range(inputs["first"], inputs["first"] + len(self._labels) - EVALUATED)
        self._weights, self._gate, self._live = inputs["weights"], gate, live
        self._calls = {"gradient": 0, "loss": 0}
        self.alive: int | None = None

    def start(self) -> torch.Tensor:
        return self._weights.clone()

    def gradient(self, weights: torch.Tensor, samples: Sequence[int]) -> torch.Tensor:
        chosen = self._checked(weights, samples)
        self._count("gradient")
        if self._calls["gradient"] == LOOKED_AT:
            self.look()
        with self._unseen() as live:
            self._gate(len(chosen), weights)
            gradient = gradient_sum(weights, self._images[chosen], self._labels[chosen])
        if live is not None:
            live.note([gradient])
        return gradient

    def loss(self, weights: torch.Tensor) -> float:
        self._checked(weights, [])
        self._count("loss")
        with self._unseen():
            self._gate(LOSS, weights)
            return evaluated(weights, self._images, self._labels)

    def look(self) -> None:
        """Note the bytes that are alive, once."""
        if self._live is not None:
            live, self._live = self._live, None
            self.alive = live.settled(0)
            live.__exit__(None, None, None)

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[LiveBytes | None]:
        """For one block, let memory that is needed here not count."""
        live = self._live
        if live is None:
            yield None
            return
        live.__exit__(None, None, None)
        try:
            yield live
        finally:
            live.__enter__()

    def _checked(self, weights: Any, samples: Any) -> list[int]:
        """The rows of the samples, if all is as it should be."""
        if not (isinstance(weights, torch.Tensor) and weights.dtype == torch.float64 and weights.shape == (NUMBERS,)):
            shown = list(weights.shape) if isinstance(weights, torch.Tensor) else type(weights).__name__
            raise ValueError(f"expected weights of {NUMBERS} float64, got {shown}")
        numbers, own = [int(number) for number in samples], self.samples
        if strange := [number for number in numbers if number not in own]:
            raise ValueError(f"expected samples of this rank, from {own.start} to {own.stop - 1}, got {strange[0]}")
        if len(numbers) > len(own):
            raise ValueError(f"expected at most the {len(own)} samples of this rank, got {len(numbers)}")
        return [number - own.start for number in numbers]

    def _count(self, call: str) -> None:
        self._calls[call] += 1
        if self._calls[call] > MOST_CALLS:
            raise RuntimeError(f"the job is stopped: {call} was called more than {MOST_CALLS} times on this rank")


def images_of(pixels: torch.Tensor) -> torch.Tensor:
    """Images [n, 64] of float64 from pixels of 0 to 16, about 0 in the mean and 1 in size."""
    return (pixels.double() - 5) / 6


def evaluated(weights: torch.Tensor, images: torch.Tensor, labels: torch.Tensor) -> float:
    """The mean loss on the images that nobody learns from: the last ones of every rank."""
    return float(loss_sum(weights, images[-EVALUATED:], labels[-EVALUATED:])) / EVALUATED


def make_job(inputs: dict[str, Any], gate: PassGate, live: LiveBytes | None = None) -> tuple[Job, _Desk]:
    """The job of a rank, and the desk behind it. `inputs`: as of `run_training`."""
    desk = _Desk(inputs, gate, live)
    job = Job(
        inputs["cluster"],
        NUMBERS,
        desk.samples,
        inputs["seconds_per_sample"],
        inputs["memory"],
        inputs["target"],
        inputs["budget"],
        desk.start,
        desk.gradient,
        desk.loss,
        Adam,
    )
    return job, desk


def run_training(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(comm, job)`.

    Args:
        inputs: "images": pixels, uint8 [n, 64], those of this rank and then those that nobody learns from; "labels";
            "first": the number of the first; "weights": those to start with; "cluster",
            "seconds_per_sample", "memory", "target", "budget".

    Returns:
        "weights": what was returned; "alive": the bytes that the rank held at its fourth call of gradient.
    """
    live = LiveBytes()
    job, desk = make_job(inputs, gate, live)
    live.__enter__()
    try:
        gate(BEGIN)
        returned = function(comm, job)
        gate(END)
    finally:
        desk.look()
    return {"weights": _copy(returned), "alive": desk.alive}


def run_steps(comm: Communicator, function: Callable[..., Any], inputs: dict[str, Any], gate: PassGate) -> Any:
    """Call `function(comm, job, weights, optimizer, batch, shares, rate)` for each step.

    Args:
        inputs: as of `run_training`, and "batches", "shares", "rate", "part": the numbers of this rank's optimizer.

    Returns:
        "weights": after each step.
    """
    job, _ = make_job(inputs, gate)
    weights, optimizer, after = job.start(), Adam(inputs["part"]), []
    for batch, shares in zip(inputs["batches"], inputs["shares"], strict=True):
        gate(BEGIN)
        function(comm, job, weights, optimizer, list(batch), list(shares), inputs["rate"])
        gate(END)
        after.append(weights.detach().clone())
    return {"weights": after}


def _copy(returned: Any) -> Any:
    return returned.detach().clone() if isinstance(returned, torch.Tensor) else returned
