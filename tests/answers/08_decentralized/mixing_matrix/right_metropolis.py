# Right: between two neighbors 1 / (1 + the larger number of neighbors); many wrong answers are a change to it.
def mixing_matrix(neighbors):
    n = len(neighbors)
    degrees = [len(others) for others in neighbors]
    matrix = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        for j in neighbors[i]:
            matrix[i, j] = 1 / (1 + max(degrees[i], degrees[j]))
    for i in range(n):
        matrix[i, i] = 1 - matrix[i].sum()
    return matrix
