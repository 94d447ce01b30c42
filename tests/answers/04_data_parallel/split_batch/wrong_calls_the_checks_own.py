# Wrong: calls the function that the checks of a later part bring along. Loses all marks.
# Told: a library function does the work
# Told by the judge: a tensor is expected here
from distlib.exercises.master import parts as master_parts


def split_batch(comm, batch):
    return master_parts.split_batch(comm, batch)
