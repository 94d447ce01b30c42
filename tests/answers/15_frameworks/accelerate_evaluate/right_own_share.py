# Right: shares the samples by hand and adds up two numbers.
def accelerate_evaluate(accelerator, model, loader):
    mine = range(accelerator.process_index, len(loader.dataset), accelerator.num_processes)
    counts = torch.zeros(2)
    for index in mine:
        inputs, label = loader.dataset[index]
        scores = model(inputs[None])[0]
        counts += torch.tensor([float(scores.argmax() == label), 1])
    right, samples = accelerator.reduce(counts)
    return (right / samples).item()
