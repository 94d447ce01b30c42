# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
# Told by the judge: the library's local_sgd_round is not there
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    import distlib.training.large_batch

    distlib.training.large_batch.local_sgd_round(comm, model, loss_function, batches, optimizer)
