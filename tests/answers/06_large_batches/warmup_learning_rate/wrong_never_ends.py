# Wrong: goes on growing after the warm-up. Loses all marks.
# Told: that goes on growing
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    part = step / warmup_steps if warmup_steps else 1
    return base_learning_rate * (1 + (k - 1) * part)
