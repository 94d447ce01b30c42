# Right: gathers in each batch what is right.
def accelerate_evaluate(accelerator, model, loader):
    loader = accelerator.prepare(loader)
    recognized = samples = 0
    with torch.no_grad():
        for inputs, labels in loader:
            is_right = accelerator.gather_for_metrics(model(inputs).argmax(1) == labels)
            recognized += is_right.sum().item()
            samples += len(is_right)
    return recognized / samples
