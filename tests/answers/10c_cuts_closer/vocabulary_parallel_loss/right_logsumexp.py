# Right: each rank's own logsumexp, put on the scale of the largest of these; sums that are added as constants.
def vocabulary_parallel_loss(comm, logits, targets, first):
    own = logits.logsumexp(dim=1)
    scale = own.detach().clone()
    all_reduce(comm, scale, op=ReduceOp.MAX)
    part = (own - scale).exp()
    others = [(t - first).item() for t in targets]
    chosen = [row[k] if 0 <= k < len(row) else row.new_zeros(()) for row, k in zip(logits, others)]
    part = torch.stack([part, torch.stack(chosen)])
    total = part.detach().clone()
    all_reduce(comm, total)
    total = part + (total - part).detach()
    return sum(torch.log(total[0]) + scale - total[1]) / targets.numel()
