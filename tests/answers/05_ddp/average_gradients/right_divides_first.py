# Right: every rank divides before the sum; a helper of its own; prints.
def gradient_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad


def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    gradients = [gradient_of(p) for p in module.parameters() if p.requires_grad]
    flat = torch.nn.utils.parameters_to_vector(gradients) / comm.world_size
    print(f"{flat.numel()} numbers in {len(gradients)} gradients")
    all_reduce(comm, flat)
    torch.nn.utils.vector_to_parameters(flat, gradients)
