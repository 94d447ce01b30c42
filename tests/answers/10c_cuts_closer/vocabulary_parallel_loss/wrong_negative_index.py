# Wrong: asks only whether the target lies below the end of the share: negative ones count from behind. Loses all marks.
# Told: targets are counted on more than one rank
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
    here = local < logits.shape[1]
    rows = torch.arange(len(targets))
    picked = shifted[rows, local.remainder(logits.shape[1])] * here
    return (total.log() - with_backward(picked, add, lambda g: g)).mean()
