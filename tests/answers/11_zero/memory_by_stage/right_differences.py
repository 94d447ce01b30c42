# Right: from stage to stage it subtracts what is saved
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    whole = sum(lengths)
    saved = whole - sum((n // world_size) + bool(n % world_size) for n in lengths)
    stages = [whole * (parameter_bytes + gradient_bytes + state_bytes)]
    for size in (state_bytes, gradient_bytes, parameter_bytes):
        stages.append(stages[-1] - size * saved)
    return stages
