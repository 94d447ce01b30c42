# Wrong: goes back when all actions are done, from the loss of the whole batch. Loses all marks.
# Told: let it go back by itself
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, last, samples = comm.rank, comm.world_size - 1, sum(shape[0] for shape in shapes)
    entries, outputs, handles, total = {}, {}, [], torch.zeros((), dtype=torch.float64)
    for kind, i in map(read_action, actions):
        if kind == "F":
            entries[i] = inputs[i] if rank == 0 else torch.zeros(*shapes[i], dtype=torch.float64)
            if rank > 0:
                comm.recv(entries[i], rank - 1, i)
                entries[i].requires_grad_()
            outputs[i] = module(entries[i])
            if rank < last:
                handles.append(comm.isend(outputs[i].detach(), rank + 1, i))
            else:
                total = total + loss_function(outputs[i], targets[i]) * shapes[i][0] / samples
    if rank == last:
        total.backward()
    for i in sorted(entries):
        if rank < last:
            gradient = torch.empty_like(outputs[i])
            comm.recv(gradient, rank + 1, i)
            outputs[i].backward(gradient)
        if rank > 0:
            handles.append(comm.isend(entries[i].grad, rank - 1, i))
    for handle in handles:
        handle.wait()
    return total.item() if rank == last else None
