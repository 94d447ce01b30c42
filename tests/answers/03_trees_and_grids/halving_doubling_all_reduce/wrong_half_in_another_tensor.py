# Wrong: keep = keep + incoming makes a new tensor: the sums are not in the tensor. Loses all marks.
# Told: the half that it keeps is not
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
    part, stack, d = flat, [], p // 2
    while d >= 1:
        lo, hi = torch.tensor_split(part, 2)
        keep, give = (hi, lo) if r & d else (lo, hi)
        incoming = torch.empty_like(keep)
        comm.exchange(give, r ^ d, incoming, r ^ d)
        keep = keep + incoming
        stack.append((r ^ d, keep, give))
        part = keep
        d //= 2
    for partner, keep, give in reversed(stack):
        comm.exchange(keep, partner, give, partner)
    if r + p < n:
        comm.send(flat, r + p)
    tensor.copy_(flat.view(tensor.shape))
