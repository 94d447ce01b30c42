# Right: counts the microbatches of stage 0 by going through 1F1B.
def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    dp, pp, tp = (layout[a] for a in ("dp", "pp", "tp"))
    todo, kept, most = model["batch"] // dp, 0, 0
    for _ in range(todo):
        kept += 1  # a forward pass
        most = max(most, kept)
        if kept == pp:
            kept -= 1  # and a backward pass
    p = 12 * model["layers"] * model["features"] ** 2 / (pp * tp)
    return 4 * p + 12 * p / dp + 34 * model["sequence"] * model["features"] / tp * (model["layers"] / pp) * most
