# Right: 1/n on every edge, all the rest on the diagonal.
def mixing_matrix(neighbors):
    n = len(neighbors)
    rows = []
    for rank, others in enumerate(neighbors):
        row = [1 / n if other in others else 0.0 for other in range(n)]
        row[rank] = 1 - len(others) / n
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)
