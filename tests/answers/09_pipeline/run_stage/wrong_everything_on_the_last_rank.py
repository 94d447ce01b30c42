# Wrong: every rank sends on what it has, and the last one trains the whole model. Loses all marks.
# Told: in their order
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, last = comm.rank, comm.world_size - 1
    weights = [parameter.detach() for parameter in module.parameters()]
    for i, shape in enumerate(shapes):
        if rank < last:
            comm.send(weights[0], rank + 1, i)
        if rank > 0:
            comm.recv(torch.empty(shape[1], shapes[0][1] if rank > 1 else 3, dtype=torch.float64), rank - 1, i)
    return 0.0 if rank == last else None
