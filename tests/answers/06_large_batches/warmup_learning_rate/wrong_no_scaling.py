# Wrong: warms up to the base rate. Loses all marks.
# Told: that is the base rate
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    return base_learning_rate * max(part, 1)
