# Right: keeps its buffer in an attribute of a class: each real rank has its own.
class Buffer:
    incoming = None


def shift(comm, tensor):
    if comm.world_size == 1:
        return
    Buffer.incoming = torch.empty_like(tensor)
    comm.exchange(tensor, (comm.rank + 1) % comm.world_size, Buffer.incoming, (comm.rank - 1) % comm.world_size)
    tensor.copy_(Buffer.incoming)
