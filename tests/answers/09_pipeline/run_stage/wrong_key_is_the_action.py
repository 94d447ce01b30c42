# Wrong: keeps a forward pass under its action, and looks for it under the action of the backward pass. Loses all marks.
# Told: nothing is kept under this number
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    first, last = comm.rank == 0, comm.rank == comm.world_size - 1
    samples, kept, sends, total = sum(shape[0] for shape in shapes), {}, [], 0.0
    for action in actions:
        kind, i = read_action(action)
        if kind == "F":
            entry = inputs[i] if first else torch.empty(shapes[i], dtype=torch.float64)
            if not first:
                comm.recv(entry, comm.rank - 1, tag=i)
                entry.requires_grad_()
            output = module(entry)
            if last:
                output = loss_function(output, targets[i]) * shapes[i][0] / samples
                total += output.item()
            else:
                sends.append(comm.isend(output.detach(), comm.rank + 1, tag=i))
            kept[action] = entry, output
        else:
            entry, output = kept.pop(action)
            gradient = torch.ones_like(output)
            if not last:
                comm.recv(gradient, comm.rank + 1, tag=i)
            output.backward(gradient)
            if not first:
                sends.append(comm.isend(entry.grad, comm.rank - 1, tag=i))
    for send in sends:
        send.wait()
    return total if last else None
