# Wrong: a message for each element. Loses all marks.
# Told: Send it whole
def shift(comm, tensor):
    if comm.world_size == 1:
        return
    next_rank, previous_rank = (comm.rank + 1) % comm.world_size, (comm.rank - 1) % comm.world_size
    flat = tensor.reshape(-1).clone()
    for k in range(len(flat)):
        incoming = flat.new_empty(1)
        comm.exchange(flat[k : k + 1].clone(), next_rank, incoming, previous_rank)
        flat[k] = incoming.item()
    tensor.copy_(flat.view(tensor.shape))
