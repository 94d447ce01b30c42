# Wrong: puts together only what was received. Loses all marks.
# Told: the output of rank 0 itself is missing
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank != 0:
        comm.send(output, 0)
        return None
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = outputs.tensor_split(comm.world_size)
    for src in range(1, comm.world_size):
        comm.recv(parts[src], src)
    return torch.cat(parts[1:]) if comm.world_size > 1 else output
