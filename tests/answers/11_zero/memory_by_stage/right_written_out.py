# Right: the four formulas, one below the other, as a tuple.
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    p, g, k = parameter_bytes, gradient_bytes, state_bytes
    n = sum(lengths)
    s = sum((length + world_size - 1) // world_size for length in lengths)
    return p * n + g * n + k * n, p * n + g * n + k * s, p * n + g * s + k * s, p * s + g * s + k * s
