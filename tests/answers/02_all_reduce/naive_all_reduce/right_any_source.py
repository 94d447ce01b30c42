# Right: rank 0 takes whoever comes first.
def naive_all_reduce(comm, tensor):
    others = [rank for rank in range(comm.world_size) if rank != 0]
    if comm.rank in others:
        comm.send(tensor, dst=0, tag=7)
        comm.recv(tensor, src=0, tag=8)
    else:
        for _ in others:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
            comm.recv(buffer, src=None, tag=7)
            tensor += buffer
        for rank in others:
            comm.send(tensor, rank, tag=8)
