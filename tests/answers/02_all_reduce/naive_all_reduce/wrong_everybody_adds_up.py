# Wrong: no master; everybody sends the whole buffer to everybody and adds up. Loses all marks.
# Told: they took 1 round; 2 were expected
def naive_all_reduce(comm, tensor):
    mine = tensor.clone()
    others = [rank for rank in range(comm.world_size) if rank != comm.rank]
    buffers = [torch.empty_like(tensor) for _ in others]
    receiving = [comm.irecv(buffer, src) for buffer, src in zip(buffers, others)]
    sending = [comm.isend(mine, dst) for dst in others]
    for work in receiving + sending:
        work.wait()
    for buffer in buffers:
        tensor += buffer
