# Wrong: rounds to five digits. Loses the hidden marks.
# Told: returned a wrong value
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    return round(base_learning_rate * (1 + (k - 1) * part), 5)
