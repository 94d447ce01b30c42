# Right: small functions of one's own.
def own_parameters(model, layout):
    return 12 * model["layers"] * model["features"] ** 2 / (layout["pp"] * layout["tp"])


def in_flight(model, layout):
    mine = model["batch"] // layout["dp"]
    return len(range(mine)[: layout["pp"]])


def per_layer(model, layout):
    return 34 * model["sequence"] * model["features"] / layout["tp"]


def layout_memory(model: Mapping[str, int], layout: Mapping[str, int]) -> float:
    states = (4 + 12 / layout["dp"]) * own_parameters(model, layout)
    return states + in_flight(model, layout) * (model["layers"] // layout["pp"]) * per_layer(model, layout)
