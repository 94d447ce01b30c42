# Wrong: pads the whole model once instead of each unit. Loses all marks.
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w = sum(lengths)
    s = -(-w // world_size)
    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    return [(p + g + o) * w, (p + g) * w + o * s, p * w + (g + o) * s, (p + g + o) * s]
