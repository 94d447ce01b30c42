# Right: numpy dot product of amounts and bytes.
import numpy as np


def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    n, f, s, b = (float(model[k]) for k in ("layers", "features", "sequence", "batch"))
    d, p, t = (float(layout[k]) for k in ("dp", "pp", "tp"))
    own_layers = n / p
    parameters = 12 * own_layers * f**2 / t
    amounts = np.array([parameters, parameters, own_layers * np.minimum(p, b / d)])
    return float(amounts @ np.array([4.0, 12 / d, 34 * s * f / t]))
