# Right: cuts the smallest dimension that N divides; pairs by zip.
def shardings(mesh, shapes, way):
    axis, n = mesh.axis_names[0], len(mesh.devices.ravel())
    if way == "fully sharded":
        specs = {}
        for name, shape in shapes.items():
            widths = sorted((width, d) for d, width in enumerate(shape) if width % n == 0)
            specs[name] = P(*(axis if widths and d == widths[0][1] else None for d in range(len(shape))))
        return specs, P(axis, None)
    if way == "data parallel":
        return {name: P() for name in shapes}, P(axis, None)
    if way == "tensor parallel":
        layers = sorted({int(name[1:]) for name in shapes})
        specs = {}
        for first, second in zip(layers[::2], layers[1::2]):
            specs.update({f"W{first}": P(None, axis), f"W{second}": P(axis, None)})
            specs.update({f"b{first}": P(axis), f"b{second}": P(None)})
        return specs, P(None, None)
    raise ValueError(f"{way=}, but it must be data parallel, tensor parallel or fully sharded")
