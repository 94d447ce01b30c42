# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.training import data_parallel


def split_batch(comm, batch):
    return data_parallel.split_batch(comm, batch)
