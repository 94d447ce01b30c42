# Right: everything is started first and waited for afterwards.
def naive_all_reduce(comm, tensor):
    if comm.rank:
        sending = comm.isend(tensor.clone(), 0)
        result = comm.irecv(tensor, 0)
        sending.wait()
        result.wait()
        return tensor
    buffers = [torch.empty_like(tensor) for _ in range(comm.world_size - 1)]
    started = [comm.irecv(buffer, src + 1) for src, buffer in enumerate(buffers)]
    for work in started:
        work.wait()
    tensor.copy_(sum(buffers, tensor.clone()))
    for work in [comm.isend(tensor, dst + 1) for dst in range(len(buffers))]:
        work.wait()
    return tensor
