# Right: torch's functions for vectors of parameters.
@torch.no_grad()
def average(comm, model):
    tensors = list(model.parameters()) + [b for b in model.buffers() if b.dtype.is_floating_point]
    vector = torch.nn.utils.parameters_to_vector(tensors)
    all_reduce(comm, vector, ReduceOp.AVG)
    torch.nn.utils.vector_to_parameters(vector, tensors)


def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).mean().backward()
        optimizer.step()
    average(comm, model)
