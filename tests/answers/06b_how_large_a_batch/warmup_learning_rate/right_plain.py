# Right: the plain way; many wrong answers are a change to it.
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    return base_learning_rate * (1 + (k - 1) * part)
