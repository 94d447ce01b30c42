# Wrong: takes the outputs in the order in which they arrive. Loses all marks.
# Told: in the wrong order
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank != 0:
        comm.send(output, 0)
        return None
    parts = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype).tensor_split(comm.world_size)
    parts[0].copy_(output)
    for part in parts[1:]:
        comm.recv(part)
    return torch.cat(parts)
