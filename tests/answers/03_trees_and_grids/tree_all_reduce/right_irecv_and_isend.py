# Right: all receives are started at once, and all sends; a rank without elements sends nothing.
def tree_all_reduce(comm, tensor):
    if tensor.numel() == 0:
        return
    lowest = comm.rank & -comm.rank or comm.world_size
    steps = range((comm.world_size - 1).bit_length())
    below = [comm.rank + 2**k for k in steps if 2**k < lowest and comm.rank + 2**k < comm.world_size]
    buffers = [torch.empty_like(tensor) for _ in below]
    for work in [comm.irecv(buffer, rank) for buffer, rank in zip(buffers, below)]:
        work.wait()
    for buffer in buffers:
        tensor += buffer
    if comm.rank:
        comm.send(tensor, comm.rank - lowest)
        comm.recv(tensor, comm.rank - lowest)
    for work in [comm.isend(tensor, rank) for rank in reversed(below)]:
        work.wait()
