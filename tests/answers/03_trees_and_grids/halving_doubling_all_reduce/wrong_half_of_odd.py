# Wrong: cuts with // 2 slices and receives a half as long as the other: only lengths that stay even. Loses all marks.
# Told: twice n // 2 leaves one out
def halving_doubling_all_reduce(comm: Communicator, tensor: torch.Tensor) -> None:
    n, r = comm.world_size, comm.rank
    p = 1 << (n.bit_length() - 1)
    flat = tensor.reshape(-1)
    if r >= p:
        comm.send(flat, r - p)
        comm.recv(flat, r - p)
        tensor.copy_(flat.view(tensor.shape))
        return
    if r + p < n:
        buffer = torch.empty_like(flat)
        comm.recv(buffer, r + p)
        flat += buffer
    lo, size, d = 0, len(flat), p // 2
    while d >= 1:
        size //= 2
        mine, theirs = (lo + size, lo) if r & d else (lo, lo + size)
        incoming = torch.empty(size, dtype=tensor.dtype)
        comm.exchange(flat[theirs : theirs + size], r ^ d, incoming, r ^ d)
        flat[mine : mine + size] += incoming
        lo = mine
        d //= 2
    d = 1
    while d < p:
        theirs = lo - size if r & d else lo + size
        comm.exchange(flat[lo : lo + size], r ^ d, flat[theirs : theirs + size], r ^ d)
        lo = min(lo, theirs)
        size *= 2
        d *= 2
    if r + p < n:
        comm.send(flat, r + p)
    tensor.copy_(flat.view(tensor.shape))
