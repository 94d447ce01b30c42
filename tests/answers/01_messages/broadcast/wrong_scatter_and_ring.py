# Wrong: every rank gets a chunk, and a ring brings the others. Loses all marks.
# Told: the tensor is sent in parts
def broadcast(comm, tensor, root=0):
    size = comm.world_size
    chunks = list(torch.tensor_split(tensor.flatten(), size))
    if comm.rank == root:
        for dst in range(size):
            if dst != root:
                comm.send(chunks[dst], dst)
    else:
        comm.recv(chunks[comm.rank], root)
    for step in range(size - 1):
        outgoing, incoming = chunks[(comm.rank - step) % size], chunks[(comm.rank - step - 1) % size]
        comm.exchange(outgoing.clone(), (comm.rank + 1) % size, incoming, (comm.rank - 1) % size)
    tensor.copy_(torch.cat(chunks).view(tensor.shape))
