# Right: a dataclass.
from dataclasses import dataclass


@dataclass
class Shape:
    layers: int
    features: int
    heads: int
    sequence: int
    batch: int


def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    m = Shape(**model)
    layers = m.layers / layout["pp"]
    weights = 12 * layers * m.features**2 / layout["tp"]
    table = {
        "parameters and gradients": 4 * weights,
        "adam": 12 * weights / layout["dp"],
        "activations": 34
        * m.sequence
        * m.features
        * layers
        * sorted([layout["pp"], m.batch / layout["dp"]])[0]
        / layout["tp"],
    }
    return sum(table.values())
