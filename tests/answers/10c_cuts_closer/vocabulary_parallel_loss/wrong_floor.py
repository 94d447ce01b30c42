# Wrong: no largest logit is below -1000. Loses the hidden marks.
# Told: Subtract the largest logit of the position before exp()
def vocabulary_parallel_loss(
    comm: Communicator, logits: torch.Tensor, targets: torch.Tensor, first: int
) -> torch.Tensor:
    """The mean cross-entropy of logits that are cut along the vocabulary."""
    lowest = -1000.0

    def add_up(tensor: torch.Tensor) -> torch.Tensor:
        total = tensor.clone()
        all_reduce(comm, total)
        return total

    peak = torch.full_like(targets, lowest, dtype=logits.dtype)
    for column in logits.detach().unbind(dim=1):
        peak = torch.maximum(peak, column)
    all_reduce(comm, peak, op=ReduceOp.MAX)
    scores = logits - peak.unsqueeze(1)
    tokens = torch.arange(first, first + logits.shape[1])
    hit = torch.where(tokens == targets.unsqueeze(1), scores, 0.0).sum(dim=1)
    both = torch.stack([scores.exp().sum(dim=1), hit])
    both = with_backward(both, add_up, lambda gradient: gradient)
    return (both[0].log() - both[1]).mean()
