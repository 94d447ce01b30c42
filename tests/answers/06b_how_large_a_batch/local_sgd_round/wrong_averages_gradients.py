# Wrong: averages the gradients in each step, and no parameters. Loses all marks.
# Told: this is what averaging in each step gives
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])
        all_reduce(comm, flat, op=ReduceOp.AVG)
        for parameter, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
            parameter.grad.copy_(part.view(parameter.shape))
        optimizer.step()
