# Right: GPipe with send and recv; an all-reduce for each gradient.
def hybrid_step(mesh, stage, shapes, inputs, targets, loss_function, global_batch_size):
    pp = mesh["pp"]
    first, last = pp.rank == 0, pp.rank == pp.world_size - 1
    entries, outputs, total = [], [], torch.zeros(1, dtype=torch.float64)
    for i, shape in enumerate(shapes):
        if first:
            entry = inputs[i]
        else:
            entry = torch.empty(tuple(shape), dtype=torch.float64)
            pp.recv(entry, pp.rank - 1)
            entry.requires_grad_()
        output = stage(entry)
        if last:
            output = loss_function(output, targets[i]) / global_batch_size
            total += output.detach()
        else:
            pp.send(output.detach(), pp.rank + 1)
        entries.append(entry)
        outputs.append(output)
    for i in range(len(shapes)):
        if last:
            outputs[i].backward()
        else:
            gradient = torch.empty_like(outputs[i])
            pp.recv(gradient, pp.rank + 1)
            outputs[i].backward(gradient)
        if not first:
            pp.send(entries[i].grad, pp.rank - 1)
    for parameter in stage.parameters():
        all_reduce(mesh["dp"], parameter.grad)
    if last:
        all_reduce(mesh["dp"], total)
        return total.item()
