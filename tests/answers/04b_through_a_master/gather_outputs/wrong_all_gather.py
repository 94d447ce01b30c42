# Wrong: everybody gets all outputs. Loses all marks.
# Told: and should return None
def gather_outputs(comm, output, batch_size):
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = outputs.tensor_split(comm.world_size)
    parts[comm.rank].copy_(output.detach())
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            comm.recv(parts[src], src)
        for dst in range(1, comm.world_size):
            comm.send(outputs, dst)
    else:
        comm.send(parts[comm.rank], 0)
        comm.recv(outputs, 0)
    return outputs
