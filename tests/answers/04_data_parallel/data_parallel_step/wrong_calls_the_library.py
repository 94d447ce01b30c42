# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.training import data_parallel


def data_parallel_step(comm, model, images, labels, loss_function):
    return data_parallel.data_parallel_step(comm, model, images, labels, loss_function)
