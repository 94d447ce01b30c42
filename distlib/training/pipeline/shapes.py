"""What travels between the stages, found before the first microbatch.

    rank 0 ──shapes of stage 0's output──► rank 1 ──shapes of stage 1's output──► rank 2 …       168 bytes each, once

Each rank runs its stages on zeros, and tells the next one what comes out. So a stage that cannot take what the stage
before returns is found here, and named with both. Weights, buffers and random numbers stay as they are.

A batch that the microbatches do not divide has microbatches of two lengths, one apart: both shapes are sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.func import functional_call

from distlib.communicator import Communicator
from distlib.partition import chunk_lengths
from distlib.training.pipeline.plan import PipelinePlan

_DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_MOST_DIMENSIONS = 8
_NUMBERS = 2 + _MOST_DIMENSIONS  # dtype, number of dimensions, dimensions
_TAG = 0


@dataclass(frozen=True)
class Form:
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {list(self.shape)}"

    def empty(self, device: torch.device) -> torch.Tensor:
        """A tensor of this form, not filled."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)


@dataclass
class Forms:
    """The forms of what this rank's stages receive and return.

    Attributes:
        batch: the number of samples in a batch.
        lengths: of the microbatches.
        inputs, outputs: by stage, the form for each of the different lengths.
    """

    batch: int
    lengths: list[int]
    inputs: dict[int, list[Form]] = field(default_factory=dict)
    outputs: dict[int, list[Form]] = field(default_factory=dict)

    def of(self, forms: Mapping[int, Sequence[Form]], stage: int, microbatch: int) -> Form:
        """The form of one microbatch at one stage; `forms` is `inputs` or `outputs`."""
        shorter = self.lengths[microbatch] < self.lengths[0]
        return forms[stage][int(shorter)]


def agree_on_forms(
    comm: Communicator, plan: PipelinePlan, stages: Mapping[int, nn.Module], batch: torch.Tensor | None
) -> Forms:
    """Find the forms for batches like this one. Every rank calls it; the rank of stage 0 gives the batch.

    Raises:
        ValueError: a stage cannot take what the stage before returns, or does not return one floating-point tensor; or
            fewer samples than microbatches.
    """
    forms: Forms | None = None
    if batch is not None and 0 in stages:
        lengths = check_lengths(len(batch), plan.num_microbatches)
        given = [Form((length, *batch.shape[1:]), batch.dtype) for length in (lengths[0], lengths[-1])]
        forms = Forms(len(batch), lengths, {0: given})
    for stage in sorted(stages):
        before, after = plan.rank_of.get(stage - 1, comm.rank), plan.rank_of.get(stage + 1, comm.rank)
        if before != comm.rank:
            count, arrived = _receive(comm, before)
            forms = forms or Forms(count, check_lengths(count, plan.num_microbatches))
            forms.inputs[stage] = arrived
        elif stage > 0:
            assert forms is not None
            forms.inputs[stage] = forms.outputs[stage - 1]
        assert forms is not None
        received = forms.inputs[stage]
        forms.outputs[stage] = [_output_form(comm, plan, stage, stages[stage], form) for form in received]
        if after != comm.rank:
            _send(comm, after, forms.batch, forms.outputs[stage])
    assert forms is not None
    return forms


def check_lengths(batch: int, num_microbatches: int) -> list[int]:
    """The lengths of the microbatches, as torch.tensor_split cuts a batch.

    Raises:
        ValueError: fewer samples than microbatches.
    """
    if batch < num_microbatches:
        raise ValueError(
            f"expected at least one sample per microbatch, got {batch} samples for {num_microbatches} microbatches: "
            "make the schedule for fewer"
        )
    return chunk_lengths(batch, num_microbatches)


def _output_form(comm: Communicator, plan: PipelinePlan, stage: int, module: nn.Module, form: Form) -> Form:
    """What a stage returns for an input of this form. The stage stays as it is."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    source = "the inputs" if stage == 0 else f"what stage {stage - 1} on rank {plan.rank_of[stage - 1]} returns"
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            output = functional_call(module, buffers, (form.empty(comm.device).zero_(),))
    except Exception as error:
        raise ValueError(
            f"stage {stage} on rank {plan.rank_of[stage]} cannot take {source}, {form}: {error}"
        ) from error
    if stage < plan.num_stages - 1 and not (isinstance(output, torch.Tensor) and output.dtype in _DTYPES):
        what = output.dtype if isinstance(output, torch.Tensor) else type(output).__name__
        raise ValueError(
            f"expected stage {stage} on rank {plan.rank_of[stage]} to return one floating-point tensor for the next "
            f"stage, got {what}"
        )
    if not isinstance(output, torch.Tensor):
        return form  # of the last stage, whose output goes nowhere but into the loss
    if output.ndim > _MOST_DIMENSIONS:
        raise ValueError(f"expected stage {stage} to return at most {_MOST_DIMENSIONS} dimensions, got {output.ndim}")
    return Form(tuple(output.shape), output.dtype)


def _send(comm: Communicator, dst: int, batch: int, forms: Sequence[Form]) -> None:
    numbers = [batch]
    for form in forms:
        padding = [0] * (_MOST_DIMENSIONS - len(form.shape))
        numbers += [_DTYPES.index(form.dtype), len(form.shape), *form.shape, *padding]
    comm.send(torch.tensor(numbers), dst, _TAG)


def _receive(comm: Communicator, src: int) -> tuple[int, list[Form]]:
    message = torch.zeros(1 + 2 * _NUMBERS, dtype=torch.int64)
    comm.recv(message, src, _TAG)
    batch, *numbers = message.tolist()
    rows = [numbers[:_NUMBERS], numbers[_NUMBERS:]]
    return batch, [Form(tuple(row[2 : 2 + row[1]]), _DTYPES[row[0]]) for row in rows]
