# Wrong: a gather to a master in the ring's clothing. Loses all marks.
# Told: that is the master of naive_all_reduce
def ring_all_reduce(comm, tensor):
    next_rank, previous_ranks = 0, range(1, comm.world_size)
    if comm.rank == next_rank:
        incoming = torch.empty_like(tensor)
        for previous_rank in previous_ranks:
            comm.recv(incoming, previous_rank)
            tensor += incoming
        for previous_rank in previous_ranks:
            comm.send(tensor, previous_rank)
    else:
        comm.send(tensor, next_rank)
        comm.recv(tensor, next_rank)
