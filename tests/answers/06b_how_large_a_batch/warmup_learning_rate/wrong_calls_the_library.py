# Wrong: calls the library's own function. Loses all marks.
# Told: a function of the library
# Told by the judge: the library's warmup_learning_rate is not there
def warmup_learning_rate(step, base_learning_rate, base_batch_size, batch_size, warmup_steps):
    import distlib.training.large_batch

    return distlib.training.large_batch.warmup_learning_rate(
        step, base_learning_rate, base_batch_size, batch_size, warmup_steps
    )
