# Wrong: divides everything by the number of ranks, as the paper's formulas do. Loses all marks.
# Told: each unit is padded until the ranks divide it
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    p, g, k, n = parameter_bytes, gradient_bytes, state_bytes, sum(lengths)
    return [
        (p + g + k) * n,
        (p + g + k / world_size) * n,
        (p + (g + k) / world_size) * n,
        (p + g + k) / world_size * n,
    ]
