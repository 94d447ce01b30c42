# Wrong: draws new weights with the same seed everywhere, and sends nothing. Loses all marks.
# Told: rank 0 has the model that counts
def replicate(comm, model):
    torch.manual_seed(0)
    for tensor in [*model.parameters(), *model.buffers()]:
        tensor.data = torch.randn(tensor.shape).to(tensor.dtype)
