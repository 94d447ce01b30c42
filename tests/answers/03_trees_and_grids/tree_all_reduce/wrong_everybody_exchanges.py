# Wrong: partners exchange whole tensors, so that all have the sum at once; the rest talks to rank 0. Loses all marks.
# Told: the two ranks of a pair exchange, and both add up
def tree_all_reduce(comm, tensor):
    power = 2 ** (comm.world_size.bit_length() - 1)
    incoming = torch.empty_like(tensor)
    if comm.rank >= power:
        comm.send(tensor, comm.rank - power)
        comm.recv(tensor, comm.rank - power)
        return
    if comm.rank + power < comm.world_size:
        comm.recv(incoming, comm.rank + power)
        tensor += incoming
    distance = 1
    while distance < power:
        comm.exchange(tensor, comm.rank ^ distance, incoming, comm.rank ^ distance)
        tensor += incoming
        distance *= 2
    if comm.rank + power < comm.world_size:
        comm.send(tensor, comm.rank + power)
