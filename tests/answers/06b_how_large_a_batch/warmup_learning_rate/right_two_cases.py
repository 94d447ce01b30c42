# Right: two cases.
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    full = base_learning_rate * batch_size / base_batch_size
    if step < warmup_steps:
        return base_learning_rate + (full - base_learning_rate) * step / warmup_steps
    return full
