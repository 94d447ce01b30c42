# Wrong: calls the library's own function. Loses all marks.
# Told: were sent by distlib.collectives.grid.grid_all_reduce
# Told by the judge: a library function does the work
from distlib import collectives


def grid_all_reduce(comm, tensor, columns):
    collectives.grid_all_reduce(comm, tensor, columns=columns)
