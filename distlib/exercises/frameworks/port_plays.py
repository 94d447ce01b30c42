"""What a check plays with both frameworks: a model behind gates, its data, and what became of them."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from distlib.checks.plays.gated import PassGate, open_gate


def refuse_torchs_sampler(loader: DataLoader[Any]) -> None:
    """Torch's own sampler is an answer to another exercise, and not there when a class is graded.

    Raises:
        RuntimeError: the loader has it.
    """
    if isinstance(loader.sampler, DistributedSampler):
        raise RuntimeError("torch's DistributedSampler is not there while your own function is graded")


class GatedNetwork(torch.nn.Module):
    """Two layers or three. A batch's gradient is multiplied with what a gate gives this rank: that of its first sample.

    Args:
        parameters: by name; copied.
        samples: the inputs of the whole data set, all different. Their numbers are those of the gates.
        gate: knows the factors.
    """

    def __init__(self, parameters: dict[str, torch.Tensor], samples: torch.Tensor, gate: PassGate) -> None:
        super().__init__()
        hidden, inputs = parameters["first.weight"].shape
        self.first = torch.nn.Linear(inputs, hidden, dtype=torch.float64)
        self.middle = torch.nn.Linear(hidden, hidden, dtype=torch.float64) if "middle.weight" in parameters else None
        self.second = torch.nn.Linear(hidden, 1, dtype=torch.float64)
        self.load_state_dict(parameters)
        self._samples, self._gate = samples, _SameGate(gate)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of [samples, features]: [samples, 1]."""
        number = int((self._samples == inputs[0]).all(1).nonzero()[0])
        hidden = torch.tanh(self.first(inputs))
        outputs = self.second(torch.tanh(self.middle(hidden)) if self.middle else hidden)
        passed: torch.Tensor = _ThroughGate.apply(outputs, lambda: self._gate.gate(number))
        return passed


class _SameGate:
    """A gate. A copy of the model has the same one; a file that the model is pickled into has none."""

    def __init__(self, gate: PassGate) -> None:
        self.gate = gate

    def __deepcopy__(self, memo: dict[int, Any]) -> _SameGate:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _SameGate, (open_gate,)


class _ThroughGate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, factor: Callable[[], float]) -> torch.Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0] * ctx.factor(), None


class GradientDescent(torch.optim.Optimizer):
    """Gradient descent, as torch.optim.SGD does it.

    Torch's own imports a compiler when it is made, which takes seconds.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float) -> None:
        self.param_groups = [{"params": list(parameters), "lr": lr}]
        self.defaults, self.state = {"lr": lr}, {}  # type: ignore[assignment]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Each parameter minus lr times its gradient, if it has one. What a closure returns, which is called before."""
        with torch.enable_grad():
            loss = closure() if closure is not None else None
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter -= self.param_groups[0]["lr"] * parameter.grad
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """No gradients, or such that are zero."""
        for parameter in self.param_groups[0]["params"]:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """The rate. There is nothing else."""
        return {"state": {}, "param_groups": [{"lr": self.param_groups[0]["lr"]}]}


def train_and_save(
    framework: Any,
    function: Callable[..., Any],
    inputs: dict[str, Any],
    gate: PassGate,
    names: Sequence[str],
    make_optimizer: Callable[..., torch.optim.Optimizer] = GradientDescent,
) -> dict[str, Any]:
    """Call `function(framework, model, optimizer, loader, …, path)`.

    Args:
        inputs: "parameters" of the model, by name; "x" and "y" of all samples; "batch_size"; "seed" of what the loader
            shuffles with; "rate" of the optimizer.
        names: of the inputs that are arguments, between loader and path.
        make_optimizer: of parameters, and lr=….

    Returns:
        "returned"; the "parameters" afterwards, by name; and what lies at the path: "saved", None if nothing does.
    """
    model = GatedNetwork(inputs["parameters"], inputs["x"], gate)
    optimizer = make_optimizer(model.parameters(), lr=inputs["rate"])
    generator = torch.Generator().manual_seed(inputs["seed"])
    samples = TensorDataset(inputs["x"], inputs["y"])
    loader = DataLoader(samples, inputs["batch_size"], shuffle=True, generator=generator)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.pt"
        returned = function(framework, model, optimizer, loader, *(inputs[name] for name in names), str(path))
        return {"returned": returned, "parameters": dict(model.named_parameters()), "saved": _saved(path)}


def _saved(path: Path) -> Any:
    """What lies in a file of torch's; None if there is no file, and a sentence if it holds more than plain values."""
    if not path.exists():
        return None
    try:
        return torch.load(path, weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError):
        return "something that torch.load(path, weights_only=True) does not read"


class CountingModel(torch.nn.Module):
    """Scores for each class, from linear layers. Below the last one each has a bias, and a tanh behind it.

    Args:
        weights: [outputs, inputs] of each layer; copied.
        biases: [outputs] of each layer but the last; copied.

    Attributes:
        samples: how many it has seen.
    """

    def __init__(self, weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList([each.clone() for each in weights])
        self.biases = torch.nn.ParameterList([each.clone() for each in biases])
        self.samples = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Of [samples, features]: [samples, classes]."""
        self.samples += len(inputs)
        *below, last = self.weights
        for weight, bias in zip(below, self.biases, strict=True):
            inputs = torch.tanh(torch.nn.functional.linear(inputs, weight, bias))
        return torch.nn.functional.linear(inputs, last)


def evaluate_and_count(framework: Any, function: Callable[..., Any], inputs: dict[str, Any]) -> dict[str, Any]:
    """Call `function(framework, model, loader)`.

    Args:
        inputs: "weights" and "biases" of the model; "x" and the "labels" of all samples; "batch_size".

    Returns:
        "returned"; and how many "samples" went through the model.
    """
    model = CountingModel(inputs["weights"], inputs["biases"])
    loader = DataLoader(TensorDataset(inputs["x"], inputs["labels"]), inputs["batch_size"])
    return {"returned": function(framework, model, loader), "samples": model.samples}
