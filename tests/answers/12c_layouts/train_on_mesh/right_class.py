# Right: a class; groups by the number of dimensions of the mesh; the norm after the factor
class MeshTrainer:
    def __init__(self, model, mesh, rate, max_norm):
        for block in reversed(model.blocks):
            block = parallelize_module(block, mesh["tp"], {"up": ColwiseParallel()})
            parallelize_module(block.down, mesh["tp"], RowwiseParallel())
            fully_shard(block, mesh=mesh["dp"], reshard_after_forward=True)
        self.model = fully_shard(model, mesh=mesh["dp"])
        self.optimizer = torch.optim.SGD(model.parameters(), rate)
        self.max_norm = max_norm

    @property
    def gradients(self):
        gradients = [each.grad for each in self.model.parameters()]
        return [[g for g in gradients if g.device_mesh.ndim == n] for n in (1, 2)]

    def clip(self):
        squares = sum(torch.nn.utils.get_total_norm(each).full_tensor() ** 2 for each in self.gradients)
        norm = squares.sqrt().item()
        for gradient in sum(self.gradients, []):
            if norm > self.max_norm:
                gradient.mul_(self.max_norm / norm)
        return norm

    def step(self, inputs, targets):
        self.model.zero_grad()
        torch.nn.MSELoss()(self.model(inputs), targets).backward()
        norm = self.clip()
        self.optimizer.step()
        return norm


def train_on_mesh(model, dp_size, tp_size, steps, rate, max_norm):
    names = ("dp", "tp")
    mesh = dist.device_mesh.init_device_mesh("cpu", mesh_shape=(dp_size, tp_size), mesh_dim_names=names)
    trainer = MeshTrainer(model, mesh, rate, max_norm)
    return [trainer.step(*batch) for batch in steps]
