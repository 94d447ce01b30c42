# Wrong: integer division where it is not exact. Loses the hidden marks.
# Told: Is something rounded on the way
def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]
    parameters = 12 * model["layers"] * model["features"] ** 2 // (pp * tp)
    microbatches = min(pp, model["batch"] // dp)
    activations = 34 * model["sequence"] * model["features"] // tp * (model["layers"] // pp) * microbatches
    return 4 * parameters + 12 // dp * parameters + activations
