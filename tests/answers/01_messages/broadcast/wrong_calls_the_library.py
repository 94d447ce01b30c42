# Wrong: calls the library's own function. Loses all marks.
# Told: 1 of 1 message was sent by distlib.collectives
# Told by the judge: a library function does the work
from distlib import collectives


def broadcast(comm, tensor, root=0):
    collectives.broadcast(comm, tensor, root)
