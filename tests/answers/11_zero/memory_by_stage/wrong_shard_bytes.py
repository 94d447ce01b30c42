# Wrong: rounds up the bytes instead of the numbers. Loses all marks.
# Told: First come numbers, and then the bytes of each
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w = sum(lengths)

    def up(size):
        return sum(-(-n * size // world_size) for n in lengths)

    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    return [(p + g + o) * w, (p + g) * w + up(o), p * w + up(g + o), up(p + g + o)]
