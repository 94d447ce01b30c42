# Right: adds the same amount in each step.
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    rate = base_learning_rate
    for _ in range(min(step, warmup_steps)):
        rate += base_learning_rate * (batch_size / base_batch_size - 1) / warmup_steps
    return rate if warmup_steps else base_learning_rate * batch_size / base_batch_size
