# Wrong: takes the first token of the next rank for its own, too. Loses all marks.
# Told: the end is not its own
def vocabulary_parallel_loss(comm, logits, targets, first):
    def add(x):
        y = x.clone()
        all_reduce(comm, y)
        return y

    top = logits.detach().amax(1)
    all_reduce(comm, top, op=ReduceOp.MAX)
    shifted = logits - top[:, None]
    total = with_backward(shifted.exp().sum(1), add, lambda g: g)
    local = targets - first
    here = (local >= 0) & (local <= logits.shape[1])
    picked = shifted.gather(1, local.clamp(0, logits.shape[1] - 1)[:, None])[:, 0] * here
    return (total.log() - with_backward(picked, add, lambda g: g)).mean()
