# Right: the three rows of the table.
def layout_memory(model, layout):
    parameters = 12 * model["layers"] * model["features"] ** 2 / (layout["pp"] * layout["tp"])
    layers = model["layers"] / layout["pp"]
    kept = min(layout["pp"], model["batch"] / layout["dp"])
    activations = 34 * model["sequence"] * model["features"] / layout["tp"] * layers * kept
    states = 12 / layout["dp"] * parameters
    return 4 * parameters + states + activations
