# Wrong: only rank 0 and rank 1 talk; with more ranks the rest is left out. Loses all marks.
# Told: the sum lacks the values of rank 2
def naive_all_reduce(comm, tensor):
    if comm.world_size == 1:
        return
    buffer = torch.empty_like(tensor)
    if comm.rank == 0:
        comm.recv(buffer, 1)
        tensor += buffer
        comm.send(tensor, 1)
    elif comm.rank == 1:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
