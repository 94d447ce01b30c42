# Wrong: return inside the loop, only the first unit counts. Loses all marks.
# Told: this is the first unit alone
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    p, g, o = parameter_bytes, gradient_bytes, state_bytes
    for w in lengths:
        s = -(-w // world_size)
        return [(p + g + o) * w, (p + g) * w + o * s, p * w + (g + o) * s, (p + g + o) * s]
