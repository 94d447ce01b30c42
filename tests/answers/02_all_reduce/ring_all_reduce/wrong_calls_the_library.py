# Wrong: calls the library's own function. Loses all marks.
# Told: 4 of 4 messages were sent by distlib.collectives.all_reduce
# Told by the judge: a library function does the work
import distlib


def ring_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor)
