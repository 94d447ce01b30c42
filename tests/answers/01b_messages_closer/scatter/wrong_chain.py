# Wrong: everything is passed on from rank to rank. Loses all marks.
# Told: the tensors are passed on from rank to rank
def scatter(comm, tensor, root=0):
    chunks = torch.tensor_split(tensor.reshape(-1), comm.world_size)
    size, place = comm.world_size, (comm.rank - root) % comm.world_size
    kept = [chunk.clone() for chunk in chunks]
    rest = [(p + root) % size for p in range(max(place, 1), size)]
    if place:
        for owner in rest:
            comm.recv(kept[owner], (comm.rank - 1) % size)
    for owner in rest:
        if owner != comm.rank:
            comm.send(kept[owner], (comm.rank + 1) % size)
    return kept[comm.rank]
