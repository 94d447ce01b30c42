# Right: a weighted average of both rates.
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    scale = batch_size / base_batch_size
    part = min(step / warmup_steps, 1) if warmup_steps else 1
    return (1 - part) * base_learning_rate + part * scale * base_learning_rate
