# Wrong: every rank computes the loss of its own part, weighted so that the sum is right. Loses all marks.
# Told: calls loss_function
def data_parallel_step(comm, model, images, labels, loss_function):
    model.zero_grad()
    part, my_labels = split_batch(comm, images), split_batch(comm, labels)
    replicate(comm, model)
    loss = loss_function(model(part), my_labels) * len(part) / len(images)
    loss.backward()
    reduce_gradients(comm, model)
    return loss if comm.rank == 0 else None
