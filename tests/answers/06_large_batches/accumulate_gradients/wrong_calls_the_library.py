# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
# Told by the judge: the library's accumulate_gradients is not there
def accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size):
    import distlib.training.large_batch

    distlib.training.large_batch.accumulate_gradients(comm, model, loss_function, microbatches, global_batch_size)
