"""Layers into stages, so that the most expensive stage is as cheap as can be: a pipeline is as slow as that one.

    costs             1  1  1  1  4  4
    cut by count      1  1 | 1  1 | 4  4        the slowest stage costs 8
    cut by cost       1  1  1  1 | 4 | 4        the slowest stage costs 4

A stage is a run of consecutive layers. Found by bisection over the number of layers that fit below a limit; the limits
that can matter are the sums of consecutive costs. This is the linear partition problem (S. Skiena, "The Algorithm
Design Manual", section "The Partition Problem").
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from distlib.arguments import check_integer, check_number, checked


def cut_by_cost(costs: Sequence[float], num_stages: int) -> list[range]:
    """Cut layers into stages so that the largest sum of costs is as small as it can be.

    Args:
        costs: one for each layer, in order; at least 0. A truth value counts as 1 or 0.
        num_stages: how many stages. Each gets at least one layer.

    Returns:
        For each stage the numbers of its layers.

    Raises:
        ValueError: fewer layers than stages, no stage, or a cost that is negative or NaN.
    """
    num_stages = check_integer("cut_by_cost", "num_stages", num_stages, 1)
    if num_stages > len(costs):
        raise ValueError(
            f"expected at least 1 stage and at most one per layer, got {num_stages} stages for {len(costs)} layers"
        )
    for number, cost in enumerate(costs):
        cost = int(cost) if isinstance(cost, bool) else cost
        check_number("cut_by_cost", f"costs[{number}]", cost, at_least=0)
    limits = sorted({sum(costs[first:last]) for last in range(len(costs) + 1) for first in range(last)})
    low, high = 0, len(limits) - 1  # the last limit fits: everything in one stage
    while low < high:
        middle = (low + high) // 2
        if _ends(costs, num_stages, limits[middle]) is None:
            low = middle + 1
        else:
            high = middle
    ends = _ends(costs, num_stages, limits[low])
    assert ends is not None
    return [range(first, last) for first, last in zip([0, *ends], ends, strict=False)]


def _ends(costs: Sequence[float], num_stages: int, limit: float) -> list[int] | None:
    """Where the stages end if each takes what fits below `limit` and leaves a layer for every later one."""
    ends, layer = [], 0
    for later in reversed(range(num_stages)):
        start = layer
        while layer < len(costs) - later and sum(costs[start : layer + 1]) <= limit:
            layer += 1
        if layer == start:
            return None
        ends.append(layer)
    return ends if layer == len(costs) else None


@checked
def measure_costs(module: nn.Module, inputs: torch.Tensor) -> list[float]:
    """The floating-point operations of the forward pass of each layer, counted by torch.

    Args:
        module: an `nn.Sequential`.
        inputs: an example; its values do not matter. It is run through all layers once.

    Additions and element-by-element functions count as 0: what counts is the products of matrices and convolutions.
    """
    layers = _layers_of(module)
    counts = []
    with torch.no_grad():
        for layer in layers:
            with FlopCounterMode(display=False) as counter:
                inputs = layer(inputs)
            counts.append(float(counter.get_total_flops()))
    return counts


def stages_of(module: nn.Module, num_stages: int, costs: Sequence[float] | None = None) -> list[nn.Sequential]:
    """Cut a model into stages. They share its layers; parameters keep the names that they have in the model.

    Args:
        module: an `nn.Sequential`: its layers run one after another, and each hands one tensor to the next.
        num_stages: how many.
        costs: of each layer, such as `measure_costs` finds; None: its number of parameters.

    Raises:
        ValueError: the module is not an `nn.Sequential`, there are fewer layers than stages, or another number of costs
            than of layers.
    """
    layers = _layers_of(module)
    if costs is None:
        costs = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
    if len(costs) != len(layers):
        raise ValueError(f"expected a cost for each of {len(layers)} layers, got {len(costs)} costs")
    everything = module.named_modules(remove_duplicate=False)  # named_children leaves out what stands twice
    named = [(name, layer) for name, layer in everything if name and "." not in name]
    return [nn.Sequential(OrderedDict(named[run.start : run.stop])) for run in cut_by_cost(costs, num_stages)]


def _layers_of(module: nn.Module) -> list[nn.Module]:
    if not isinstance(module, nn.Sequential):
        raise ValueError(
            f"expected an nn.Sequential, whose layers run one after another, got {type(module).__name__}: only its "
            "forward knows in which order its parts run, so it cannot be cut. Write it as nn.Sequential(…)"
        )
    return list(module)
