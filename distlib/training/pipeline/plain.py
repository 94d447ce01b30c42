"""Pipeline parallelism by 1F1B to read first: a rank has one stage of the model, microbatches go through all of them.

    rank 0   F0  F1  F2          B0  F3  B1      B2      B3         F: activations go to the next rank
    rank 1       F0  F1      B0  F2  B1  F3  B2      B3             B: gradients go to the previous one
    rank 2           F0  B0  F1  B1  F2  B2  F3  B3
             warmup, then one forward, one backward in turn, then what is left

    pipeline = PlainPipeline(comm, stages[comm.rank], cross_entropy, num_microbatches=4, sample_shape=[30])
    optimizer = torch.optim.AdamW(pipeline.stage.parameters())
    loss = pipeline.step(inputs, targets)       # forward and backward; the same batch on every rank
    optimizer.step()                            # each rank its own stage

The gradients are those of the mean loss over the batch. Of m microbatches a rank keeps at most `world_size - rank` at a
time; a rank that did all forward passes first would keep m.

What `Pipeline` (in `executor`) adds: any schedule, several stages on a rank, backward passes in halves, recomputation,
weights that two stages share; it finds the shapes itself, receives while it computes, measures time and memory.

Source: D. Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021 (PipeDream-Flush).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import torch
from torch import nn

from distlib.communicator import Communicator, Work


class PlainPipeline:
    """One rank's stage of a model, trained together with the stages before and after it.

    Args:
        comm: of this rank.
        stage: takes one tensor [samples, …] and returns one.
        loss_function: (outputs, targets) → the mean loss over the samples. The last rank calls it.
        num_microbatches: into how many parts a batch is cut, at most as many as it has samples.
        sample_shape: of one sample as it comes from the previous rank; the first rank does not use it.
    """

    def __init__(
        self,
        comm: Communicator,
        stage: nn.Module,
        loss_function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        num_microbatches: int,
        sample_shape: Sequence[int],
    ) -> None:
        self.comm, self.stage, self.loss_function = comm, stage, loss_function
        self.num_microbatches, self.sample_shape = num_microbatches, sample_shape
        self.previous_rank = comm.rank - 1 if comm.rank > 0 else None
        self.next_rank = comm.rank + 1 if comm.rank < comm.world_size - 1 else None
        self.kept: deque[tuple[torch.Tensor, torch.Tensor, Work | None]] = deque()  # between forward and backward

    def step(self, inputs: torch.Tensor, targets: torch.Tensor) -> float:
        """Add the gradients of a batch to those that the stage has. Returns the loss on the last rank, 0 elsewhere.

        The first rank reads `inputs`, the last one `targets`; of the others only the number of samples matters.
        """
        warmup = min(self.num_microbatches, self.comm.world_size - 1 - self.comm.rank)
        x, y = (each.tensor_split(self.num_microbatches) for each in (inputs, targets))
        loss = 0.0
        for number in range(self.num_microbatches):
            loss += self._forward(x[number], y[number], share=len(y[number]) / len(targets))
            if number >= warmup:
                self._backward()
        for _ in range(warmup):
            self._backward()
        return loss

    def _forward(self, inputs: torch.Tensor, targets: torch.Tensor, share: float) -> float:
        if self.previous_rank is not None:
            inputs = next(self.stage.parameters()).new_empty(len(inputs), *self.sample_shape)
            self.comm.recv(inputs, self.previous_rank)
            inputs.requires_grad_()  # which the previous rank waits for
        output, sending = self.stage(inputs), None
        if self.next_rank is None:
            output = self.loss_function(output, targets) * share
        else:  # with `send` it would deadlock: the next rank may be sending a gradient, and receives only after that
            sending = self.comm.isend(output.detach(), self.next_rank)
        self.kept.append((inputs, output, sending))
        return output.item() if self.next_rank is None else 0.0

    def _backward(self) -> None:
        inputs, output, sending = self.kept.popleft()  # of the oldest microbatch
        gradient = None  # where the output is the loss
        if sending is not None:
            gradient = torch.empty_like(output)
            self.comm.recv(gradient, self.next_rank)
            sending.wait()  # returns at once: the gradient is the answer to what was sent
        output.backward(gradient)
        if self.previous_rank is not None:
            self.comm.send(inputs.grad, self.previous_rank)  # type: ignore[arg-type]
