# Right: fills the whole from its end.
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank == 0:
        whole = torch.zeros((batch_size,) + output.shape[1:]).to(output.dtype)
        end = batch_size
        for src in range(comm.world_size - 1, 0, -1):
            rows = len(range(batch_size)[: len(torch.arange(batch_size).tensor_split(comm.world_size)[src])])
            comm.recv(whole[end - rows : end], src)
            end -= rows
        whole[:end] = output
        return whole
    comm.send(output, dst=0)
