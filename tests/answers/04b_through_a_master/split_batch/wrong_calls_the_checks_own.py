# Wrong: calls the function that the checks of a later part bring along. Loses all marks.
# Told: a library function does the work
# Told by the judge: a tensor is expected here
from distlib.exercises.master import helpers


def split_batch(comm, batch):
    return helpers.split_batch(comm, batch)
