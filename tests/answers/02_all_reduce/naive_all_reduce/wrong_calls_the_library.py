# Wrong: calls the library's own function. Loses all marks.
import distlib


def naive_all_reduce(comm, tensor):
    distlib.all_reduce(comm, tensor, algorithm="naive")
