"""Many small models trained at once, in one process: an experiment with 5 seeds and 8 rates is one stack of 40.

    the weights of one layer    model 0   [32, 64] ┐
                                model 1   [32, 64] ┼─ one tensor [40, 32, 64]: one batched product instead of 40
                                …                  ┘

All numbers of a model lie one behind the other in a row of `vectors`, of which `parameters` are views. So an experiment
can work on whole models, `vectors[3] - vectors[4]`, without any copying.

Each model has weights, samples and a learning rate of its own. The losses of all of them are added up. No loss depends
on another model's weights, so the gradient of the sum holds for each model its own gradient.

How torch stacks modules: https://docs.pytorch.org/tutorials/intermediate/ensembling.html
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

LossFunction = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes outputs [samples, …] and targets [samples, …], returns one loss for each sample."""


class ModelStack:
    """Models of the same shape that are trained side by side, each as if it were alone.

    Attributes:
        parameters: name → the parameters of that name of all models, [models, …]. A step changes them in place.
        vectors: all parameters of each model as one vector, in their order, [models, numbers]; the same memory.
        rates: the learning rate of each model, [models]; may be changed between two steps.

    Args:
        models: at least one, all of the same class, shapes and dtype, without buffers. They are copied.
        rates: a learning rate for each model.
        optimizer: what makes an optimizer from `(parameters, lr=1)`. It must work on each element by itself and take
            steps that are proportional to `lr`: SGD, also with momentum, and Adam; nothing with weight decay.

    Raises:
        ValueError: as many rates as models were expected, or a model has buffers.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        rates: Sequence[float],
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    ) -> None:
        if not models or len(models) != len(rates):
            raise ValueError(f"expected a rate for each of at least one model, got {len(models)} and {len(rates)}")
        stacked, buffers = stack_module_state(list(models))
        if buffers:
            raise ValueError(
                f"expected models without buffers, got {', '.join(buffers)}: a stack trains parameters only"
            )
        self.vectors = torch.cat([each.detach().flatten(1) for each in stacked.values()], dim=1)
        parts = self.vectors.split([each[0].numel() for each in stacked.values()], dim=1)
        self.parameters = {
            name: part.view(each.shape).requires_grad_()
            for (name, each), part in zip(stacked.items(), parts, strict=True)
        }
        self.rates = torch.tensor(list(rates), dtype=torch.float64)
        self._optimizer = optimizer(list(self.parameters.values()), lr=1.0)
        shape = copy.deepcopy(models[0]).to("meta")  # only its forward pass is used, with other parameters
        self._forward = vmap(lambda parameters, inputs: functional_call(shape, parameters, (inputs,)))

    def outputs(self, inputs: torch.Tensor) -> torch.Tensor:
        """What each model answers to inputs of its own. inputs: [models, samples, …]. Returns [models, samples, …]."""
        return self._forward(self.parameters, inputs)

    def step(self, loss_function: LossFunction, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """One training step of every model, along the gradient of the mean loss of its samples, in place.

        inputs, targets: [models, samples, …].
        """
        losses = loss_function(self.outputs(inputs).flatten(0, 1), targets.flatten(0, 1))
        self._optimizer.zero_grad()
        (losses.sum() / targets.shape[1]).backward()
        before = self.vectors.clone()
        self._optimizer.step()  # with lr = 1: each model then goes its rate's part of the way
        torch.lerp(before, self.vectors, self.rates.to(before.dtype)[:, None], out=self.vectors)

    @torch.no_grad()
    def accuracies(self, inputs: torch.Tensor, labels: torch.Tensor) -> list[float]:
        """The share of samples that each model classifies correctly; all models get the same [samples, …]."""
        answers = self.outputs(inputs.expand(len(self.rates), *inputs.shape)).argmax(dim=-1)
        return (answers == labels).float().mean(dim=1).tolist()
