# Wrong: sends every row in a message of its own. Loses all marks.
# Told: every message pays for its latency
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank != 0:
        for row in output:
            comm.send(row, 0)
        return None
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = outputs.tensor_split(comm.world_size)
    parts[0].copy_(output)
    for src in range(1, comm.world_size):
        for row in parts[src]:
            comm.recv(row, src)
    return outputs
