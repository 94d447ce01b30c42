# Wrong: keeps its outputs until it has all, and sends them in one message: the next rank waits. Loses all marks.
# Told: each microbatch has a message of its own
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, last = comm.rank, comm.world_size - 1
    sizes = [n for n, _ in shapes]
    entries, outputs, handles, loss = {}, {}, [], 0.0
    for action in actions:
        kind, i = read_action(action)
        if kind == "F":
            if rank == 0:
                entries[i] = inputs[i]
            elif i not in entries:
                together = torch.empty(sum(sizes), shapes[0][1], dtype=torch.float64)
                comm.recv(together, rank - 1, 0)
                entries |= {k: each.clone().requires_grad_() for k, each in enumerate(together.split(sizes))}
            outputs[i] = module(entries[i])
            if rank == last:
                outputs[i] = loss_function(outputs[i], targets[i]) * (sizes[i] / sum(sizes))
                loss += outputs[i].item()
            elif len(outputs) == len(shapes):
                whole = torch.cat([outputs[k].detach() for k in range(len(shapes))])
                handles.append(comm.isend(whole, rank + 1, 0))
        else:
            gradient = torch.ones_like(outputs[i])
            if rank < last:
                comm.recv(gradient, rank + 1, i)
            outputs[i].backward(gradient)
            if rank > 0:
                handles.append(comm.isend(entries[i].grad, rank - 1, i))
    for handle in handles:
        handle.wait()
    return loss if rank == last else None
