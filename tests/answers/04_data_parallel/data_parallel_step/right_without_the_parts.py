# Right: sends and receives everything itself.
def exchange_rows(comm, rows, like):
    if comm.rank == 0:
        parts = rows.tensor_split(comm.world_size)
        for dst in range(1, comm.world_size):
            comm.send(parts[dst], dst)
        return parts[0]
    comm.recv(like, 0)
    return like


def data_parallel_step(comm, model, images, labels, loss_function):
    others = range(1, comm.world_size)
    mine = torch.empty_like(images.tensor_split(comm.world_size)[comm.rank])
    part = exchange_rows(comm, images, mine)
    for tensor in model.state_dict().values():
        if comm.rank:
            comm.recv(tensor, 0)
        for dst in others if comm.rank == 0 else ():
            comm.send(tensor, dst)
    output = model(part)
    loss = gradient = None
    if comm.rank == 0:
        outputs = [output.detach()]
        for rows in images.tensor_split(comm.world_size)[1:]:
            outputs.append(output.new_empty((len(rows), *output.shape[1:])))
        for src in others:
            comm.recv(outputs[src], src)
        whole = torch.cat(outputs).requires_grad_()
        loss = loss_function(whole, labels)
        gradient = torch.autograd.grad(loss, whole)[0]
    else:
        comm.send(output.detach(), 0)
    mine = exchange_rows(comm, gradient, torch.empty_like(output))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter, grad in zip(trained, torch.autograd.grad(output, trained, mine)):
        if comm.rank:
            comm.send(grad, 0)
            continue
        incoming = torch.empty_like(grad)
        for src in others:
            comm.recv(incoming, src)
            grad = grad + incoming
        parameter.grad = grad
    return loss
