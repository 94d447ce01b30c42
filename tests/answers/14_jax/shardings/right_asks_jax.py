# Right: lets JAX say what can be cut, the last dimension first.
def shardings(mesh, shapes, way):
    x = mesh.axis_names[0]

    def possible(spec, shape):
        try:
            NamedSharding(mesh, spec).shard_shape(tuple(shape))
        except ValueError:
            return False
        return True

    if way == "data parallel":
        return {name: P() for name in shapes}, P(x)
    if way == "tensor parallel":
        specs = {}
        for k in range(1, len(shapes) // 2 + 1, 2):
            specs |= {f"W{k}": P(None, x), f"b{k}": P(x), f"W{k + 1}": P(x), f"b{k + 1}": P()}
        return specs, P()
    if way == "fully sharded":
        specs = {}
        for name, shape in shapes.items():
            tries = [P(*(None,) * d, x) for d in reversed(range(len(shape)))]
            specs[name] = next((spec for spec in tries if possible(spec, shape)), P())
        return specs, P(x)
    raise ValueError(f'{way} is unknown; "data parallel", "tensor parallel", "fully sharded" are known')
