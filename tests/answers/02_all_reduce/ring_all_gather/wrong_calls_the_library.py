# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
import distlib.collectives


def ring_all_gather(comm, tensor):
    distlib.collectives.ring_all_gather(comm, tensor)
