# Wrong: calls the library's own function. Loses all marks.
# Told: were sent by distlib.collectives.tree.tree_all_reduce
# Told by the judge: a library function does the work
from distlib import collectives


def tree_all_reduce(comm, tensor):
    collectives.tree_all_reduce(comm, tensor)
