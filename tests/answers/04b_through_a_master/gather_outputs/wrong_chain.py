# Wrong: every rank hands all that it has to the rank before it. Loses all marks.
# Told: it should send nothing
def gather_outputs(comm, output, batch_size):
    outputs = torch.empty(batch_size, *output.shape[1:], dtype=output.dtype)
    parts = outputs.tensor_split(comm.world_size)
    parts[comm.rank].copy_(output.detach())
    for part in parts[comm.rank + 1 :]:
        comm.recv(part, comm.rank + 1)
    if comm.rank == 0:
        return outputs
    for part in parts[comm.rank :]:
        comm.send(part, comm.rank - 1)
