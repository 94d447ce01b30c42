# Right: the same weight on every edge, small enough for the rank with most neighbors.
def mixing_matrix(neighbors):
    adjacency = torch.zeros(len(neighbors), len(neighbors), dtype=torch.float64)
    for rank, others in enumerate(neighbors):
        adjacency[rank, list(others)] = 1
    degrees = adjacency.sum(dim=1)
    laplacian = torch.diag(degrees) - adjacency
    return torch.eye(len(neighbors), dtype=torch.float64) - laplacian / (1 + degrees.max())
