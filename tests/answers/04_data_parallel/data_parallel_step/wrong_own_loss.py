# Wrong: every rank goes backward from a loss of its own part. Loses all marks.
# Told: a loss of its own
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    part, my_labels = split_batch(comm, images), split_batch(comm, labels)
    replicate(comm, model)
    loss = loss_function(model(part), my_labels)
    loss.backward()
    reduce_gradients(comm, model)
    return loss if comm.rank == 0 else None
