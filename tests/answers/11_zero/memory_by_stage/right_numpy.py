# Right: numbers of numpy
def memory_by_stage(lengths, world_size, parameter_bytes=2, gradient_bytes=2, state_bytes=12):
    import numpy as np

    lengths = np.array(lengths)
    w, s = sum(lengths), sum(-(-lengths // world_size))
    b = (parameter_bytes, gradient_bytes, state_bytes)
    return [sum(b[: 3 - z]) * w + sum(b[3 - z :]) * s for z in range(4)]
