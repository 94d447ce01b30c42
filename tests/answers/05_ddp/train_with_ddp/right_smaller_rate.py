# Right: divides the rate; the targets are looked up by index; a DDP that wraps a module around the model.
class WithLoss(torch.nn.Module):
    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return mse_loss(self.model(inputs), targets)


def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    ddp = DistributedDataParallel(WithLoss(model))
    for step in range(len(steps)):
        for index in range(len(steps[step])):
            ddp.require_backward_grad_sync = index + 1 == len(steps[step])
            ddp(*steps[step][index]).backward()
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data.add_(parameter.grad, alpha=-rate / len(steps[step]))
            parameter.grad = None
