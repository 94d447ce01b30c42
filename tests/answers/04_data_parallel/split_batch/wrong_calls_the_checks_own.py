# Wrong: calls the function that the checks of a later part bring along. Loses all marks.
# Told: were sent by the library itself
from distlib.checks.plays import master_parts


def split_batch(comm, batch):
    return master_parts.split_batch(comm, batch)
