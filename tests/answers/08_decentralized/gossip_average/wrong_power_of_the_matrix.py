# Wrong: one round with a power of the matrix, so that ranks talk that are not neighbors. Loses all marks.
# Told: as it is given, not a power of it
def gossip_average(comm, tensor, matrix, rounds):
    me, n = comm.rank, comm.world_size
    matrix = torch.linalg.matrix_power(matrix, rounds)
    got = {j: torch.empty_like(tensor) for j in range(n) if j != me and matrix[me, j] != 0}
    todo = [comm.irecv(got[j], src=j) for j in got]
    todo += [comm.isend(tensor, dst=j) for j in range(n) if j != me and matrix[j, me] != 0]
    for each in todo:
        each.wait()
    new = matrix[me, me] * tensor
    for j in got:
        new = new + matrix[me, j] * got[j]
    tensor.copy_(new)
