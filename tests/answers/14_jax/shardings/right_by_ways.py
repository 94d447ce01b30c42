# Right: three functions in a dict, one for each way.
def shardings(mesh: Mesh, shapes: Mapping[str, tuple[int, ...]], way: str) -> tuple[dict[str, P], P]:
    axis, devices = mesh.axis_names[0], mesh.size

    def whole(name: str) -> P:
        return P()

    def in_pairs(name: str) -> P:
        is_first = int(name[1:]) % 2 == 1
        if name.startswith("W"):
            return P(None, axis) if is_first else P(axis)
        return P(axis) if is_first else P()

    def in_parts(name: str) -> P:
        for dimension, length in enumerate(shapes[name]):
            if length % devices == 0:
                return P(*[None] * dimension, axis)
        return P()

    ways = {"data parallel": (whole, P(axis)), "tensor parallel": (in_pairs, P()), "fully sharded": (in_parts, P(axis))}
    if way not in ways:
        raise ValueError(f"there is no way {way!r}; there are {', '.join(ways)}")
    spec_of, batch = ways[way]
    return {name: spec_of(name) for name in shapes}, batch
