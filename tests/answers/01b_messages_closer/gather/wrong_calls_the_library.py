# Wrong: calls the library's own function. Loses all marks.
# Told: 1 of 1 message was sent by distlib.collectives
# Told by the judge: a library function does the work
from distlib import collectives


def gather(comm, tensor, root=0):
    flat = tensor.reshape(-1)
    everything = flat.repeat(comm.world_size)
    collectives.gather(comm, everything, root)
    parts = everything.tensor_split(comm.world_size)
    return [part.view(tensor.shape) for part in parts] if comm.rank == root else None
