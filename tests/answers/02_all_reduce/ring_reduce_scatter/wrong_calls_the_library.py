# Wrong: calls the library's own function. Loses all marks.
# Told: a library function does the work
from distlib.collectives import ring_reduce_scatter as theirs


def ring_reduce_scatter(comm, tensor):
    theirs(comm, tensor)
