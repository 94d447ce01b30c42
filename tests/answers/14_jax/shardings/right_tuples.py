# Right: the axis in a tuple, as P allows, and a table of letters.
LETTERS = {"data parallel": "....", "tensor parallel": "CcR."}


def shardings(mesh: Mesh, shapes: Mapping[str, tuple[int, ...]], way: str) -> tuple[dict[str, P], P]:
    axes = tuple(mesh.axis_names)
    specs = {".": P(), "C": P(None, axes), "c": P(axes), "R": P(axes, None)}
    batch = P() if way == "tensor parallel" else P(axes)
    if way in LETTERS:
        names = [f"{kind}{k}" for k in range(1, len(shapes) // 2 + 1) for kind in "Wb"]
        return {name: specs[LETTERS[way][k % 4]] for k, name in enumerate(names)}, batch
    if way != "fully sharded":
        raise ValueError("expected 'data parallel', 'tensor parallel' or 'fully sharded', got " + way)
    found = {}
    for name, shape in shapes.items():
        fits = [axes if size % mesh.devices.size == 0 else None for size in shape]
        if all(fits):
            fits = [axes] + [None] * (len(shape) - 1)
        found[name] = P(*fits)
    return found, batch
