# Right: unit by unit, the stages of the rest added
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    if not lengths:
        return [0] * 4
    n, *rest = lengths
    s = len(range(0, n, world_size))
    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    own = [(p + g + o) * n, (p + g) * n + o * s, p * n + (g + o) * s, (p + g + o) * s]
    return [a + b for a, b in zip(own, memory_by_stage(rest, world_size, p, g, o))]
