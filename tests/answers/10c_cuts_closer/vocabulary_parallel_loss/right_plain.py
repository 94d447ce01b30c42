# Right: three all-reduces, one for each number; the operator behind each sum.
def vocabulary_parallel_loss(comm, logits, targets, first):
    n, share = logits.shape

    def summed(tensor):
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    def same(gradient):
        return gradient

    largest = logits.detach().max(dim=1).values
    all_reduce(comm, largest, op=ReduceOp.MAX)
    shifted = logits - largest[:, None]
    exponentials = shifted.exp()
    total = with_backward(exponentials.sum(dim=1), summed, same)
    mine = (targets >= first) & (targets < first + share)
    index = torch.where(mine, targets - first, torch.zeros_like(targets))
    picked = shifted[torch.arange(n), index]
    picked = torch.where(mine, picked, torch.zeros_like(picked))
    at_target = with_backward(picked, summed, same)
    loss = total.log() - at_target
    return loss.mean()
