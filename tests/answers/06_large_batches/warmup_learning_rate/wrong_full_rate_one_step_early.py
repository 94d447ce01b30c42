# Wrong: reaches the full rate in step warmup_steps - 1. Loses all marks.
# Told: one step too early
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    part = min(step / (warmup_steps - 1), 1) if warmup_steps > 1 else 1
    return base_learning_rate * (1 + (k - 1) * part)
