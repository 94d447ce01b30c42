# Right: only the first rank of tp counts what is replicated; one tensor of two numbers.
def clip_gradients(mesh, sharded, replicated, max_norm):
    counted = [*sharded, *(replicated if mesh["tp"].rank == 0 else [])]
    both = torch.tensor([sum(float(g.norm()) ** 2 for g in counted), 0.0], dtype=torch.float64)
    for axis in ("pp", "tp"):
        all_reduce(mesh[axis], both)
    norm = float(both[0].sqrt())
    factor = min(1.0, max_norm / norm) if norm else 1.0
    for gradient in sharded:
        gradient *= factor
    for gradient in replicated:
        gradient *= factor
    return norm
