# Right: match, layer by layer; the last dimension is cut where there is a choice.
def shardings(mesh: Mesh, shapes: Mapping[str, tuple[int, ...]], way: str) -> tuple[dict[str, P], P]:
    (axis,) = mesh.axis_names
    n = mesh.shape[axis]
    specs = {}
    for layer in range(1, len(shapes) // 2 + 1):
        W, b = f"W{layer}", f"b{layer}"
        rows, columns = shapes[W]
        match way:
            case "data parallel":
                specs[W], specs[b] = P(None, None), P(None)
            case "tensor parallel" if layer % 2:
                specs[W], specs[b] = P(None, axis), P(axis)
            case "tensor parallel":
                specs[W], specs[b] = P(axis, None), P(None)
            case "fully sharded":
                by_rows = P(axis, None) if rows % n == 0 else P(None, None)
                specs[W] = P(None, axis) if columns % n == 0 else by_rows
                specs[b] = P(axis) if columns % n == 0 else P(None)
            case _:
                raise ValueError(f"{way}: expected data parallel, tensor parallel or fully sharded")
    return specs, P(None, None) if way == "tensor parallel" else P(axis, None)
