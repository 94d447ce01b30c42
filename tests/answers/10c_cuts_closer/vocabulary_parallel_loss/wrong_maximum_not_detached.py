# Wrong: the largest logit stays in the graph on the rank that has it, and its gradient is wrong. Loses all marks.
# Told: the gradient also goes through the largest logit
def vocabulary_parallel_loss(comm, logits, targets, first):
    def add(x):
        y = x.clone()
        all_reduce(comm, y)
        return y

    def largest(x):
        y = x.clone()
        all_reduce(comm, y, op=ReduceOp.MAX)
        return y

    top = with_backward(logits.amax(1), largest, lambda g: g)
    shifted = logits - top[:, None]
    total = with_backward(shifted.exp().sum(1), add, lambda g: g)
    hot = targets[:, None] == torch.arange(first, first + logits.shape[1])
    wanted = with_backward((shifted * hot).sum(1), add, lambda g: g)
    return (total.log() - wanted).mean()
