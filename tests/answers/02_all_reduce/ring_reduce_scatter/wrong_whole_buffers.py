# Wrong: whole buffers go round the ring, and everybody adds up. Right sums, wrong bytes. Loses all marks.
# Told: every rank gets the whole buffer of every other rank
def ring_reduce_scatter(comm, tensor):
    rank, size = comm.rank, comm.world_size
    outgoing = tensor.clone()
    for _ in range(size - 1):
        incoming = torch.empty_like(outgoing)
        comm.exchange(outgoing, (rank + 1) % size, incoming, (rank - 1) % size)
        tensor += incoming
        outgoing = incoming
