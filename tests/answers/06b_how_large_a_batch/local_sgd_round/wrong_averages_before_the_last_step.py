# Wrong: averages before its last step, and not after it. Loses all marks.
# Told: Is the average taken after the last optimizer.step()
@torch.no_grad()
def average(comm, model):
    flat = torch.cat([parameter.reshape(-1) for parameter in model.parameters()])
    all_reduce(comm, flat, op=ReduceOp.AVG)
    for parameter, part in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        parameter.copy_(part.view(parameter.shape))


def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for number, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        if number == len(batches) - 1:
            average(comm, model)
        optimizer.step()
