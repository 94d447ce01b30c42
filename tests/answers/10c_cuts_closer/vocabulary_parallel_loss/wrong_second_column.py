# Wrong: looks another rank's target up in column 1, which one token alone lacks. Loses the hidden marks.
# Told: a target may be another rank's token, and has no column here.
def vocabulary_parallel_loss(comm, logits, targets, first):
    largest = logits.detach().max(dim=1).values
    all_reduce(comm, largest, op=ReduceOp.MAX)
    shifted = logits - largest[:, None]
    mine = (targets >= first) & (targets < first + logits.shape[1])
    column = torch.where(mine, targets - first, 1)
    chosen = shifted.gather(1, column[:, None])[:, 0] * mine

    def add(tensor):
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    both = with_backward(torch.stack([shifted.exp().sum(1), chosen]), add, lambda g: g.clone())
    return (both[0].log() - both[1]).mean()
