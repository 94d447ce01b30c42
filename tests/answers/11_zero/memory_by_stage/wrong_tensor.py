# Wrong: a tensor. Loses all marks.
# Told: what is asked for is a list of four numbers of bytes
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    w, s = sum(lengths), sum(-(-n // world_size) for n in lengths)
    b = (parameter_bytes, gradient_bytes, state_bytes)
    return torch.tensor([sum(b[: 3 - z]) * w + sum(b[3 - z :]) * s for z in range(4)])
