# Wrong: takes all parts to be as long as its own. Loses all marks.
# Told: a message does not fit
def gather_outputs(comm, output, batch_size):
    output = output.detach()
    if comm.rank != 0:
        comm.send(output, 0)
        return None
    parts = [output]
    for src in range(1, comm.world_size):
        parts.append(torch.empty_like(output))
        comm.recv(parts[-1], src)
    return torch.cat(parts)
