# Wrong: the last rank does not send to rank 0. Loses all marks.
# Told: the tensor is as it was at the start
def shift(comm, tensor):
    incoming = torch.empty_like(tensor)
    sending = comm.isend(tensor, comm.rank + 1) if comm.rank + 1 < comm.world_size else None
    if comm.rank > 0:
        comm.recv(incoming, comm.rank - 1)
    if sending:
        sending.wait()
    if comm.rank > 0:
        tensor.copy_(incoming)
