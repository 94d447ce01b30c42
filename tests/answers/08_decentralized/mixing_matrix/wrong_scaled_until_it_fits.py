# Wrong: scales rows and columns in turn until both add up to 1; some ranks keep too little. Loses all marks.
# Told: small enough
def mixing_matrix(neighbors):
    n = len(neighbors)
    W = torch.eye(n, dtype=torch.float64)
    for i in range(n):
        for j in neighbors[i]:
            W[i, j] = 1
    for _ in range(2000):
        W = W / W.sum(dim=1, keepdim=True)
        W = W / W.sum(dim=0, keepdim=True)
    return W
