# Wrong: counts steps from 1. Loses all marks.
# Told: that is the rate of the next step
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    part = min((step + 1) / warmup_steps, 1) if warmup_steps else 1
    return base_learning_rate * (1 + (k - 1) * part)
