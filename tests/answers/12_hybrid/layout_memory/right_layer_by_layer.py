# Right: adds up layer by layer.
def layout_memory(model, layout):
    dp, pp, tp = layout["dp"], layout["pp"], layout["tp"]
    microbatches = model["batch"] // dp
    total = 0.0
    for _ in range(model["layers"] // pp):
        weights = 12 * model["features"] * model["features"] / tp
        total += weights * 2 + weights * 2 + weights * 12 / dp
        for microbatch in range(microbatches):
            if microbatch < pp:
                total += 34 * model["sequence"] * model["features"] / tp
    return total
