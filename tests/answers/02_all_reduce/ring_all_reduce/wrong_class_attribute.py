# Wrong: the values go through an attribute of a class, which ranks of one process would share. Loses all marks.
# Told: chunk 0 (elements 0 to 5) is wrong
class Board:
    tensors = {}


def ring_all_reduce(comm, tensor):
    rank, size = comm.rank, comm.world_size
    Board.tensors[rank] = tensor.clone()
    chunks = torch.tensor_split(tensor.flatten(), size)
    for step in range(2 * (size - 1)):
        incoming = torch.empty_like(chunks[(rank - step - 1) % size])
        comm.exchange(chunks[(rank - step) % size], (rank + 1) % size, incoming, (rank - 1) % size)
    tensor.copy_(sum(Board.tensors.get(other, 0) for other in range(size)))
