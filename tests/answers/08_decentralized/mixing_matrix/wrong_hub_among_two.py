# Wrong: counts the neighbors of the first two ranks only. Loses the hidden marks.
# Told: the weights of a rank's neighbors leave something of 1
def mixing_matrix(neighbors: Sequence[Sequence[int]]) -> torch.Tensor:
    """A doubly stochastic matrix for gossip on a graph: one weight for all edges."""
    most = max(map(len, neighbors[:2]))
    share = 1 / (most + 1)
    ranks = range(len(neighbors))
    rows = [[share if j in neighbors[i] else 0.0 for j in ranks] for i in ranks]
    matrix = torch.tensor(rows, dtype=torch.float64)
    return matrix + torch.diag(1 - matrix.sum(dim=1))
