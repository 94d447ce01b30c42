# Wrong: takes rank * share for its first token, and not what it is handed: shares differ. Loses all marks.
# Told: is another number where shares differ
def vocabulary_parallel_loss(comm, logits, targets, first):
    def add(x):
        y = x.clone()
        all_reduce(comm, y)
        return y

    top = logits.detach().amax(1)
    all_reduce(comm, top, op=ReduceOp.MAX)
    shifted = logits - top[:, None]
    total = with_backward(shifted.exp().sum(1), add, lambda g: g)
    begin = comm.rank * logits.shape[1]
    hot = targets[:, None] == torch.arange(begin, begin + logits.shape[1])
    return (total.log() - with_backward((shifted * hot).sum(1), add, lambda g: g)).mean()
