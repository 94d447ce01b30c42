# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: No module named 'distlib.large_batch'
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    import distlib.large_batch

    return distlib.large_batch.warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps)
