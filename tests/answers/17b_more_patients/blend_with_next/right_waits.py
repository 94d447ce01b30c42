# Right: waits before it reads the buffer, and after compute().
def blend_with_next(comm, own, compute):
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    incoming = torch.zeros_like(own)
    receiving = comm.irecv(incoming, next_rank)
    sending = comm.isend(own, previous_rank)
    computed = compute()
    receiving.wait()
    sending.wait()
    return computed + incoming
