# Right: starts all receives, then waits.
def gather(comm, tensor, root=0):
    if comm.rank != root:
        comm.send(tensor, root)
        return None
    gathered = [torch.empty_like(tensor) for _ in range(comm.world_size)]
    gathered[root].copy_(tensor)
    started = [comm.irecv(buffer, src) for src, buffer in enumerate(gathered) if src != root]
    for work in started:
        work.wait()
    return gathered
