# Wrong: grows by the same factor in each step. Loses all marks.
# Told: grows by the same factor
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    k = batch_size / base_batch_size
    part = 1.0 if step >= warmup_steps else step / warmup_steps
    return base_learning_rate * k**part
