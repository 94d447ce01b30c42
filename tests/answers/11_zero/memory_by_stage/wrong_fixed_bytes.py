# Wrong: 2, 2 and 12 bytes whatever is asked. Loses all marks.
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w = sum(lengths)
    s = sum(-(-n // world_size) for n in lengths)
    return [16 * w, 4 * w + 12 * s, 2 * w + 14 * s, 16 * s]
