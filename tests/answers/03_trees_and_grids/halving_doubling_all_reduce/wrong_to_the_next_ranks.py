# Wrong: sends to the rank `distance` further on and receives from the other side, no pairs. Loses all marks.
# Told: Two ranks should exchange
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
    chunks = torch.tensor_split(flat, power)
    around = [chunks[(rank + k) % power].clone() for k in range(power)]  # counted from the own chunk
    distance = power // 2
    while distance > 0:
        incoming = torch.empty_like(torch.cat(around[:distance]))
        outgoing = torch.cat(around[distance : 2 * distance])
        comm.exchange(outgoing, (rank + distance) % power, incoming, (rank - distance) % power)
        at = 0
        for k in range(distance):
            around[k] += incoming[at : at + len(around[k])]
            at += len(around[k])
        distance //= 2
    distance = 1
    while distance < power:
        incoming = torch.empty_like(torch.cat(around[distance : 2 * distance]))
        comm.exchange(torch.cat(around[:distance]), (rank - distance) % power, incoming, (rank + distance) % power)
        at = 0
        for k in range(distance, 2 * distance):
            around[k] = incoming[at : at + len(around[k])].clone()
            at += len(around[k])
        distance *= 2
    for k in range(power):
        chunks[(rank + k) % power].copy_(around[k])
    if rank + power < comm.world_size:
        comm.send(flat, rank + power)
    tensor.copy_(flat.view(tensor.shape))
