# Wrong: sets the other chunks to zero and adds up in a ring of both phases: twice the messages. Loses all marks.
# Told: rank 0 sent 2 messages; 1 was expected
def ring_all_gather(comm, tensor):
    rank, size = comm.rank, comm.world_size
    flat = tensor.reshape(-1)
    chunks = torch.tensor_split(flat, size)
    for number, chunk in enumerate(chunks):
        if number != rank:
            chunk.zero_()
    for step in range(size - 1):
        mine = chunks[(rank - 2 - step) % size]
        incoming = torch.empty_like(mine)
        comm.exchange(chunks[(rank - 1 - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
        mine += incoming
    for step in range(size - 1):
        comm.exchange(
            chunks[(rank - step) % size], (rank + 1) % size, chunks[(rank - 1 - step) % size], (rank - 1) % size
        )
    tensor.copy_(flat.view(tensor.shape))
