# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.training import data_parallel


def reduce_gradients(comm, model):
    data_parallel.reduce_gradients(comm, model)
