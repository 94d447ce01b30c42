# Wrong: keeps the flat tensor of the first call of each length, and sends its numbers again. Loses the hidden marks.
# Told: right on its own, but not after other calls
FLAT = {}


def ring_all_reduce(comm, tensor):
    flat = FLAT.setdefault((comm.world_size, tensor.dtype), tensor.reshape(-1).clone())
    if len(flat) != tensor.numel():
        flat = tensor.reshape(-1).clone()
    ring_reduce_scatter(comm, flat)
    ring_all_gather(comm, flat)
    tensor.copy_(flat.view(tensor.shape))
