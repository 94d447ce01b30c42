# Right: shares the samples by hand, one rank's after the other's, and adds up two numbers.
def fabric_evaluate(fabric, model, loader):
    indices = torch.arange(len(loader.dataset)).tensor_split(fabric.world_size)[fabric.global_rank]
    share = torch.utils.data.Subset(loader.dataset, indices.tolist())
    own = fabric.setup_dataloaders(DataLoader(share, loader.batch_size), use_distributed_sampler=False)
    model = fabric.setup(model)
    model.eval()
    right = torch.zeros(2, dtype=torch.float64)
    for inputs, labels in own:
        with torch.no_grad():
            right += torch.tensor([(model(inputs).argmax(1) == labels).sum().item(), len(labels)])
    recognized, samples = fabric.all_reduce(right, reduce_op="sum").tolist()
    return recognized / samples
