# Wrong: calls the library's own function. Loses all marks.
# Told: 2 of 2 messages were sent by distlib.collectives.all_reduce
# Told by the judge: a library function does the work
import distlib


def naive_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor, algorithm="naive")
