# Right: all gradients of a dtype in one message a rank; the sum becomes a new gradient.
def reduce_gradients(comm, model):
    trained = [parameter for parameter in model.parameters() if parameter.grad is not None]
    for dtype in dict.fromkeys(parameter.dtype for parameter in trained):
        alike = [parameter for parameter in trained if parameter.dtype == dtype]
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in alike])
        if comm.rank > 0:
            comm.send(flat, 0)
            continue
        incoming = torch.empty_like(flat)
        for src in range(1, comm.world_size):
            comm.recv(incoming, src)
            flat = flat + incoming
        for parameter, piece in zip(alike, flat.split([parameter.numel() for parameter in alike])):
            parameter.grad = piece.view_as(parameter).clone()
