# Wrong: every rank gets every tensor and adds up by itself. Loses all marks.
# Told: before it had received everything
def tree_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    own, incoming = tensor.clone(), torch.empty_like(tensor)
    for distance in range(1, size):
        comm.exchange(own, (rank + distance) % size, incoming, (rank - distance) % size)
        tensor += incoming
