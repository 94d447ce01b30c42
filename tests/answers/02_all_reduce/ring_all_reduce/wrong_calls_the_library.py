# Wrong: calls the library's own function. Loses all marks.
import distlib


def ring_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor)
