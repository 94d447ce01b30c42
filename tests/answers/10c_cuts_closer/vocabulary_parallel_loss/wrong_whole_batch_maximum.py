# Wrong: one maximum for all positions: where positions are far apart, every exponential of one is 0. Loses all marks.
# Told: Subtract the largest logit of the position before exp()
def vocabulary_parallel_loss(comm, logits, targets, first):
    def add(x):
        y = x.clone()
        all_reduce(comm, y)
        return y

    top = logits.detach().max().reshape(1)
    all_reduce(comm, top, op=ReduceOp.MAX)
    shifted = logits - top
    total = with_backward(shifted.exp().sum(1), add, lambda g: g)
    hot = targets[:, None] == torch.arange(first, first + logits.shape[1])
    wanted = with_backward((shifted * hot).sum(1), add, lambda g: g)
    return (total.log() - wanted).mean()
