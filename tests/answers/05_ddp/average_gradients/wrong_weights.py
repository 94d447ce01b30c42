# Wrong: averages the parameters instead of their gradients. Loses all marks.
# Told: Usual cause:
def average_gradients(comm: Communicator, module: torch.nn.Module) -> None:
    flat = torch.nn.utils.parameters_to_vector(module.parameters()).detach()
    all_reduce(comm, flat)
    torch.nn.utils.vector_to_parameters(flat / comm.world_size, module.parameters())
