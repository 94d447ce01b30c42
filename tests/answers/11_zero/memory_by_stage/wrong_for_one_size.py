# Wrong: knows one size of numbers and four ranks. Loses all marks.
# Told: it returned a wrong value
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    whole = sum(lengths)
    return [16 * whole, 7 * whole, 11 * whole // 2, 4 * whole]
