# Right: two dicts, handles in a list, all waits at the end.
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, last = comm.rank, comm.world_size - 1
    N = sum(n for n, _ in shapes)
    entries, outputs, handles, losses = {}, {}, [], []
    for action in actions:
        kind, i = read_action(action)
        n = shapes[i][0]
        if kind == "F":
            if rank == 0:
                entries[i] = inputs[i]
            else:
                entries[i] = torch.zeros(*shapes[i], dtype=torch.float64)
                comm.recv(entries[i], rank - 1, i)
                entries[i].requires_grad_(True)
            outputs[i] = module(entries[i])
            if rank < last:
                handles.append(comm.isend(outputs[i].detach(), rank + 1, i))
            else:
                outputs[i] = loss_function(outputs[i], targets[i]) * (n / N)
                losses.append(outputs[i].item())
        else:
            if rank == last:
                outputs[i].backward()
            else:
                gradient = torch.empty_like(outputs[i])
                comm.recv(gradient, rank + 1, i)
                outputs[i].backward(gradient)
            if rank > 0:
                handles.append(comm.isend(entries[i].grad, rank - 1, i))
            del entries[i], outputs[i]
    for handle in handles:
        handle.wait()
    if rank == last:
        return sum(losses)
