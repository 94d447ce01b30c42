# Right: sends its own messages, through rank 0, in the order of ranks; the largest first.
def vocabulary_parallel_loss(comm, logits, targets, first):
    def through_rank_0(tensor, put):
        total = tensor.detach().clone()
        if comm.rank == 0:
            incoming = torch.empty_like(total)
            for other in range(1, comm.world_size):
                comm.recv(incoming, other)
                total = put(total, incoming)
            for other in range(1, comm.world_size):
                comm.send(total, other)
        else:
            comm.send(total, 0)
            comm.recv(total, 0)
        return total

    shifted = logits - through_rank_0(logits.amax(dim=1), torch.maximum).unsqueeze(1)
    outside = (targets < first) | (targets >= first + logits.shape[1])
    picked = shifted.gather(1, (targets - first).masked_fill(outside, 0).unsqueeze(1)).flatten()
    pair = torch.cat([shifted.exp().sum(dim=1), picked.masked_fill(outside, 0)])
    pair = with_backward(pair, lambda tensor: through_rank_0(tensor, torch.add), lambda gradient: gradient)
    total, at_target = pair.chunk(2)
    return (total.log() - at_target).mean()
