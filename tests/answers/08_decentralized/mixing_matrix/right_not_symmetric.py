# Right: a matrix that is not symmetric where the graph is a ring of more than three: the next rank counts more.
def mixing_matrix(neighbors):
    n = len(neighbors)
    W = torch.eye(n, dtype=torch.float64)
    for i, others in enumerate(neighbors):
        for j in others:
            W[i, j] += 1 / n
            W[i, i] -= 1 / n
    if n > 3 and all(len(o) == 2 for o in neighbors):
        before, here = None, 0
        while True:
            nxt = [j for j in neighbors[here] if j != before][0]
            W[here, nxt] += 0.5 / n
            W[here, here] -= 0.5 / n
            before, here = here, nxt
            if here == 0:
                break
    return W
