# Right: a trainer class; gradients are divided at the end instead of the losses; no broadcast of buffers.
class Trainer:
    def __init__(self, model: torch.nn.Module, rate: float) -> None:
        self.ddp = DistributedDataParallel(model, broadcast_buffers=False)
        self.trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.SGD(self.trained, lr=rate)

    def one_pass(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        mse_loss(self.ddp(inputs), targets).backward()

    def one_step(self, microbatches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.ddp.no_sync())
            for microbatch in microbatches[:-1]:
                self.one_pass(*microbatch)
        self.one_pass(*microbatches[-1])
        for parameter in self.trained:
            parameter.grad /= len(microbatches)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


def train_with_ddp(model: torch.nn.Module, steps: list[list[tuple[torch.Tensor, torch.Tensor]]], rate: float) -> None:
    trainer = Trainer(model, rate)
    for microbatches in steps:
        trainer.one_step(microbatches)
    print(f"rank {torch.distributed.get_rank()} has taken {len(steps)} steps")
