# Wrong: rank 0 sends all outputs back to everybody, where nobody needs them. Loses all marks.
# Told: outputs go to rank 0, and only there
def gather_outputs(comm, output, batch_size):
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = outputs.tensor_split(comm.world_size)
    parts[comm.rank].copy_(output.detach())
    if comm.rank == 0:
        for src in range(1, comm.world_size):
            comm.recv(parts[src], src)
        for dst in range(1, comm.world_size):
            comm.send(outputs, dst)
        return outputs
    comm.send(parts[comm.rank], 0)
    comm.recv(outputs, 0)
