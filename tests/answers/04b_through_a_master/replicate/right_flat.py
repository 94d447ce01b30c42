# Right: all tensors of a dtype in one message.
@torch.no_grad()
def replicate(comm, model):
    tensors = [*model.parameters(), *model.buffers()]
    for dtype in sorted({tensor.dtype for tensor in tensors}, key=str):
        group = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in group])
        if comm.rank == 0:
            for dst in range(1, comm.world_size):
                comm.send(flat, dst)
            continue
        comm.recv(flat, 0)
        for tensor, piece in zip(group, flat.split([tensor.numel() for tensor in group])):
            tensor.copy_(piece.view(tensor.shape))
