# Wrong: max instead of min. Loses all marks.
# Told: 1F1B keeps no more microbatches than there
def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]
    parameters = 12 * model["layers"] * model["features"] ** 2 / (pp * tp)
    microbatches = max(pp, model["batch"] // dp)
    activations = 34 * model["sequence"] * model["features"] / tp * model["layers"] / pp * microbatches
    return 4 * parameters + 12 / dp * parameters + activations
