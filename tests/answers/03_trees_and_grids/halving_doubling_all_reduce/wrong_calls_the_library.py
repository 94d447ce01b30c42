# Wrong: calls the library's own function. Loses all marks.
# Told: were sent by distlib.collectives.all_reduce
# Told by the judge: a library function does the work
import distlib


def halving_doubling_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor, algorithm="halving_doubling")
