# Wrong: calls the library's own function. Loses all marks.
# Told: 1 of 1 message were sent by distlib.collectives
from distlib import collectives


def reduce(comm, tensor, root=0):
    collectives.reduce(comm, tensor, root)
