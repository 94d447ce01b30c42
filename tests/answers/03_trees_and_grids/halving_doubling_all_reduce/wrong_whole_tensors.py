# Wrong: partners exchange whole tensors. Loses all marks.
# Told: whole tensors travel, as in a tree
def halving_doubling_all_reduce(comm, tensor):
    rank, power = comm.rank, 2 ** (comm.world_size.bit_length() - 1)
    if rank >= power:
        comm.send(tensor, rank - power)
        comm.recv(tensor, rank - power)
        return
    flat = tensor.reshape(-1)
    if rank + power < comm.world_size:
        incoming = torch.empty_like(flat)
        comm.recv(incoming, rank + power)
        flat += incoming
    distance = 1
    while distance < power:
        incoming = torch.empty_like(flat)
        comm.exchange(flat, rank ^ distance, incoming, rank ^ distance)
        flat += incoming
        distance *= 2
    if rank + power < comm.world_size:
        comm.send(flat, rank + power)
    tensor.copy_(flat.view(tensor.shape))
