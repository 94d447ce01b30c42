# Wrong: a shard has n // N + 1 numbers, also where N divides n. Loses all marks.
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w = sum(lengths)
    s = sum(n // world_size + 1 for n in lengths)
    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    return [(p + g + o) * w, (p + g) * w + o * s, p * w + (g + o) * s, (p + g + o) * s]
