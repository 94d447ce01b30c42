# Right: all gradients in one message a rank; the sum becomes a new gradient.
def reduce_gradients(comm, model):
    trained = [parameter for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([parameter.grad.reshape(-1) for parameter in trained])
    if comm.rank > 0:
        comm.send(flat, 0)
        return
    incoming = torch.empty_like(flat)
    for src in range(1, comm.world_size):
        comm.recv(incoming, src)
        flat = flat + incoming
    for parameter, piece in zip(trained, flat.split([parameter.numel() for parameter in trained])):
        parameter.grad = piece.view_as(parameter).clone()
