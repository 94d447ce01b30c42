# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.training import data_parallel


def gather_outputs(comm, output, batch_size):
    return data_parallel.gather_outputs(comm, output, batch_size)
