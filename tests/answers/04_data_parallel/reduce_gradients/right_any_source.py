# Right: takes the gradients of a parameter in the order in which they come.
def reduce_gradients(comm, model):
    for number, parameter in enumerate(filter(lambda p: p.requires_grad, model.parameters())):
        if comm.rank:
            comm.send(parameter.grad, 0, tag=number)
        else:
            parts = [parameter.grad.clone()]
            for _ in range(comm.world_size - 1):
                parts.append(torch.zeros_like(parameter.grad))
                comm.recv(parts[-1], None, tag=number)
            parameter.grad.copy_(torch.stack(parts).sum(dim=0))
