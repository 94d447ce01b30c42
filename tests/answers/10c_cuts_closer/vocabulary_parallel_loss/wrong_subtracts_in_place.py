# Wrong: subtracts from the caller's logits; they must not change. Loses all marks.
# Told: logits - top is a new tensor
def vocabulary_parallel_loss(comm, logits, targets, first):
    def add(x):
        y = x.clone()
        all_reduce(comm, y)
        return y

    top = logits.detach().amax(1)
    all_reduce(comm, top, op=ReduceOp.MAX)
    with torch.no_grad():
        logits -= top[:, None]
    total = with_backward(logits.exp().sum(1), add, lambda g: g)
    hot = targets[:, None] == torch.arange(first, first + logits.shape[1])
    return (total.log() - with_backward((logits * hot).sum(1), add, lambda g: g)).mean()
