# Wrong: calls the library's own function. Loses all marks.
# Told: 1 of 1 message was sent by distlib.collectives
# Told by the judge: a library function does the work
from distlib import collectives


def scatter(comm, tensor, root=0):
    mine = tensor.clone()
    collectives.scatter(comm, mine, root)
    return mine.reshape(-1).tensor_split(comm.world_size)[comm.rank]
