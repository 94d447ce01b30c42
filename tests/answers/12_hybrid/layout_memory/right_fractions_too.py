# Right: exact fractions, a float at the end.
from fractions import Fraction as F


def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    per_parameter = 4 + F(12, layout["dp"])
    parameters = F(12 * model["layers"] * model["features"] ** 2, layout["pp"] * layout["tp"])
    one = F(34 * model["sequence"] * model["features"], layout["tp"])
    alive = min(F(model["batch"], layout["dp"]), layout["pp"])
    return float(per_parameter * parameters + one * alive * F(model["layers"], layout["pp"]))
