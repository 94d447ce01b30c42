# Wrong: makes a float32 tensor, whatever the dtype. Loses the hidden marks.
# Told: right dtype
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank != 0:
        comm.send(output.float(), 0)
        return None
    outputs = torch.empty(batch_size, *output.shape[1:])
    parts = outputs.tensor_split(comm.world_size)
    parts[0].copy_(output)
    for src in range(1, comm.world_size):
        comm.recv(parts[src], src)
    return outputs
