# Right: a list made by map over what is cut
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    import itertools

    s = sum((n + world_size - 1) // world_size for n in lengths)
    w = sum(lengths)
    steps = itertools.accumulate([0, state_bytes, gradient_bytes, parameter_bytes])
    total = parameter_bytes + gradient_bytes + state_bytes
    return list(map(lambda cut: (total - cut) * w + cut * s, steps))
