"""Model FLOPs utilization: which part of the devices' peak a step turns into training.

    utilization = (tokens per second) · (6·Ψ + 12·layers·a·s) / (ranks · peak)

Ψ parameters, embeddings included; a features of all heads; s tokens of a sequence. What is computed twice counts once,
so recomputation lowers it; and it says nothing about how the work is laid out, so that systems can be compared.

Source: A. Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", JMLR 24 (2023), section 4.1, appendix B.
"""

from __future__ import annotations

from distlib.arguments import check_integer, check_number
from distlib.training.strategy.device import Device
from distlib.training.strategy.transformer_shape import TransformerShape


def model_flops_utilization(shape: TransformerShape, device: Device, ranks: int, batch: int, seconds: float) -> float:
    """The part of the peak of all devices, from 0 to 1.

    Args:
        shape, device: of the model and of every rank.
        ranks: how many.
        batch: sequences of a step, on all ranks together.
        seconds: of a step, predicted or measured.

    Raises:
        ValueError: no rank, no sequence, or no time.
    """
    check_integer("model_flops_utilization", "ranks", ranks, 1)
    check_integer("model_flops_utilization", "batch", batch, 1)
    check_number("model_flops_utilization", "seconds", seconds, above=0)
    return batch * shape.sequence * shape.model_operations / (seconds * ranks * device.peak)
