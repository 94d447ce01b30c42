# Wrong: calls the library's own function. Loses all marks.
# Told: 4 of 4 messages were sent by distlib.collectives.all_reduce
import distlib


def ring_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor)
