# Wrong: calls the library's own function. Loses all marks.
import distlib.collectives


def ring_all_gather(comm, tensor):
    distlib.collectives.ring_all_gather(comm, tensor)
