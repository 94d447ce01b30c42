# Wrong: a warm-up of 0 steps divides by zero. Loses all marks.
# Told: ZeroDivisionError
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = min(1.0, step / warmup_steps)
    return base_learning_rate * (1 + (k - 1) * part)
