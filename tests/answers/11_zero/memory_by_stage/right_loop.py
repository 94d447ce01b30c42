# Right: a loop over the stages, which says of each kind whether it is cut.
def memory_by_stage(
    lengths: Sequence[int],
    world_size: int,
    parameter_bytes: int = 2,
    gradient_bytes: int = 2,
    state_bytes: int = 12,
) -> list[int]:
    import math

    whole = sum(lengths)
    cut = sum(math.ceil(length / world_size) for length in lengths)
    kept = []
    for stage in range(4):
        parameters = cut if stage >= 3 else whole
        gradients = cut if stage >= 2 else whole
        states = cut if stage >= 1 else whole
        kept.append(parameters * parameter_bytes + gradients * gradient_bytes + states * state_bytes)
    return kept
