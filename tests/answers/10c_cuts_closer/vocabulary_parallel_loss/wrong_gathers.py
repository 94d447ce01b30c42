# Wrong: puts all logits together, and asks torch for the loss. Loses all marks.
# Told: that is enough for the logits of all ranks
def vocabulary_parallel_loss(comm, logits, targets, first):
    sizes = torch.zeros(comm.world_size, dtype=torch.int64)
    sizes[comm.rank] = logits.shape[1]
    all_reduce(comm, sizes)
    whole = torch.zeros(len(logits), int(sizes.sum()), dtype=logits.dtype)
    own = slice(first, first + logits.shape[1])
    whole[:, own] = logits.detach()
    all_reduce(comm, whole)
    whole[:, own] = logits
    return torch.nn.functional.cross_entropy(whole, targets)
