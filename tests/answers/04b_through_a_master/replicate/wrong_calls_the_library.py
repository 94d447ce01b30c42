# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.training import data_parallel


def replicate(comm, model):
    data_parallel.replicate(comm, model)
