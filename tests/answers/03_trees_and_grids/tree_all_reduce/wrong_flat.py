# Wrong: rank 0 takes in every tensor itself. Loses all marks.
# Told: rank 0 takes in every tensor itself, one after the other
def tree_all_reduce(comm, tensor):
    if comm.rank > 0:
        comm.send(tensor, 0)
        comm.recv(tensor, 0)
        return
    incoming = torch.empty_like(tensor)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        tensor += incoming
    for dst in range(1, comm.world_size):
        comm.send(tensor, dst)
