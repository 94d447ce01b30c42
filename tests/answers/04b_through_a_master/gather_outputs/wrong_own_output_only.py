# Wrong: rank 0 returns what it has itself. Loses all marks.
# Told: only the output of rank 0 itself
def gather_outputs(comm, output, batch_size):
    return output.detach() if comm.rank == 0 else None
