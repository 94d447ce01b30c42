# Right: prints what it does, which must cost nothing.
def lengths_of(batch, ranks):
    return [len(batch) // ranks + (rank < len(batch) % ranks) for rank in range(ranks)]


def split_batch(comm, batch):
    lengths = lengths_of(batch, comm.world_size)
    print(f"rank {comm.rank} gets {lengths[comm.rank]} of {len(batch)} rows")
    if comm.rank != 0:
        part = torch.zeros(lengths[comm.rank], *batch.shape[1:], dtype=batch.dtype)
        comm.recv(part, src=0)
        return part
    own, *others = batch.split(lengths)
    for dst, part in enumerate(others, start=1):
        comm.send(part, dst)
    return own
