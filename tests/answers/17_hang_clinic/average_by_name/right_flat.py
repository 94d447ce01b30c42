# Right: all gradients in one buffer, in the order of their names.
def average_by_name(comm, gradients):
    items = sorted(gradients.items())
    flat = torch.cat([gradient.flatten() for _, gradient in items])
    all_reduce(comm, flat, ReduceOp.AVG)
    pieces = flat.split([gradient.numel() for _, gradient in items])
    for (name, gradient), piece in zip(items, pieces):
        gradients[name] = piece.view_as(gradient)
