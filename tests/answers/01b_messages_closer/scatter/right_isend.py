# Right: starts all messages, then waits for them.
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    mine = chunks[comm.rank].clone()
    if comm.rank == root:
        started = [comm.isend(chunk, dst) for dst, chunk in enumerate(chunks) if dst != root]
        for work in started:
            work.wait()
    else:
        comm.recv(mine, root)
    return mine
