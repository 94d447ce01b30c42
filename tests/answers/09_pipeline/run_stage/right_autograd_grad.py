# Right: asks torch.autograd.grad for all gradients, and adds them up itself.
def run_stage(comm, module, actions, shapes, inputs, targets, loss_function):
    rank, last = comm.rank, comm.world_size - 1
    total_samples = sum(n for n, *_ in shapes)
    parameters = list(module.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    saved, works, loss = {}, [], torch.zeros((), dtype=torch.float64)
    for action in actions:
        kind, i = read_action(action)
        if kind == "F":
            value = inputs[i].clone() if rank == 0 else torch.empty(*shapes[i], dtype=torch.float64)
            if rank > 0:
                comm.recv(value, rank - 1, i)
            value.requires_grad_()
            result = module(value)
            if rank == last:
                result = loss_function(result, targets[i]).mul(shapes[i][0] / total_samples)
                loss += result.detach()
            else:
                works.append(comm.isend(result.detach(), rank + 1, i))
            saved[i] = value, result
        else:
            value, result = saved.pop(i)
            start = None
            if rank != last:
                start = torch.empty_like(result)
                comm.recv(start, rank + 1, i)
            first, *others = torch.autograd.grad(result, [value, *parameters], start)
            for parameter, gradient in zip(parameters, others):
                parameter.grad += gradient
            if rank > 0:
                works.append(comm.isend(first, rank - 1, i))
    for work in works:
        work.wait()
    return loss.item() if rank == last else None
