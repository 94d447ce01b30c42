# Wrong: gives the model new parameters, which the optimizer does not know. Loses all marks.
# Told: change them in place
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    with torch.no_grad():
        tensors = [*model.parameters(), *(b for b in model.buffers() if b.is_floating_point())]
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        parts = iter(flat.split([tensor.numel() for tensor in tensors]))
        for module in model.modules():
            for name, value in list(module.named_parameters(recurse=False)):
                setattr(module, name, torch.nn.Parameter(next(parts).view(value.shape).clone()))
        for buffer in tensors[len(list(model.parameters())) :]:
            buffer.copy_(next(parts).view(buffer.shape))
