# Wrong: a stage cuts only its own kind, the earlier ones are whole again. Loses all marks.
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w = sum(lengths)
    s = sum(-(-n // world_size) for n in lengths)
    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    return [(p + g + o) * w, (p + g) * w + o * s, (p + o) * w + g * s, (g + o) * w + p * s]
