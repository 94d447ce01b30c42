# Right: adds up, then divides; works on .data.
def local_sgd_round(comm, model, loss_function, batches, optimizer):
    for number, (inputs, targets) in enumerate(batches):
        optimizer.zero_grad()
        losses = loss_function(model(inputs), targets)
        (losses.sum() / len(losses)).backward()
        optimizer.step()
        print("step", number, "on rank", comm.rank)
    tensors = [parameter.data for parameter in model.parameters()]
    tensors += [buffer for buffer in model.buffers() if torch.is_floating_point(buffer)]
    total = torch.cat([tensor.flatten() for tensor in tensors])
    all_reduce(comm, total)
    total /= comm.world_size
    for tensor in tensors:
        tensor[...] = total[: tensor.numel()].reshape(tensor.shape)
        total = total[tensor.numel() :]
