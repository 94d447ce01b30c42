# Wrong: finds targets among the first ten tokens of a share. Loses the hidden marks.
# Told: It is the mean over the positions of log(sum of the exponentials of all logits)
def vocabulary_parallel_loss(comm, logits, targets, first):
    largest = logits.detach().max(dim=1).values
    all_reduce(comm, largest, op=ReduceOp.MAX)
    shifted = logits - largest[:, None]
    mine = (targets >= first) & (targets < first + min(10, logits.shape[1]))
    column = torch.where(mine, targets - first, 0)
    chosen = shifted.gather(1, column[:, None])[:, 0] * mine

    def add(tensor):
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    both = with_backward(torch.stack([shifted.exp().sum(1), chosen]), add, lambda g: g.clone())
    return (both[0].log() - both[1]).mean()
