# Right: adds up unit by unit, with divmod.
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    kinds = [state_bytes, gradient_bytes, parameter_bytes]  # in the order in which they are cut
    totals = [0, 0, 0, 0]
    for length in lengths:
        share, rest = divmod(length, world_size)
        share += rest > 0
        for stage in range(4):
            for place, nbytes in enumerate(kinds):
                totals[stage] += nbytes * (share if place < stage else length)
    return totals
