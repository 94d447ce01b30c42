# Right: as in the solution.
def worker_loop(
    comm: Communicator,
    server: int,
    parameters: torch.Tensor,
    compute: Callable[[int], torch.Tensor],
    steps: int,
) -> None:
    for step in range(steps):
        comm.send(torch.tensor([PULL]), server, REQUEST)
        comm.recv(parameters, server, PARAMETERS)
        gradient = compute(step)
        comm.send(torch.tensor([PUSH]), server, REQUEST)
        comm.send(gradient, server, GRADIENT)
    comm.send(torch.tensor([PULL]), server, REQUEST)
    comm.recv(parameters, server, PARAMETERS)
    comm.send(torch.tensor([LEAVE]), server, REQUEST)
