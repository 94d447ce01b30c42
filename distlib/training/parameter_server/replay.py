"""Training again what a server's log says, with other rates, seeds or data: without ranks, messages or a clock.

Who pushes when depends on the clock and not on the numbers in a gradient. So one run in virtual time is enough: its log
says which gradients made each update, and which version of the parameters each of them was computed with. A replay
follows the log, for many models at once.

    update         0          1          2          3
    version   0 ────► 1 ────► 2 ────► 3 ────► 4         a gradient of staleness s in update v was computed
              └────────── staleness 2 ──┘               with version v − s

It is the server's own arithmetic, so the replay of a run arrives where the run has arrived, up to rounding. What it
leaves out is what a server may do besides: weights by staleness, a schedule, optimizers other than SGD with momentum.
Where backup workers were faster, a worker's clock also counts steps that it has missed: it then no longer says which of
its own steps a gradient comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from distlib.training.parameter_server.log import ServerLog

Gradients = Callable[[torch.Tensor, int, int], torch.Tensor]
"""Takes parameters [models, numbers], a worker's rank and the clock of its gradient (from 1 on); returns the gradient
of each model, [models, numbers]."""


@torch.no_grad()
def replay(
    log: ServerLog,
    start: torch.Tensor,
    gradients: Gradients,
    rates: torch.Tensor,
    *,
    share: int,
    momentum: float = 0.0,
) -> Iterator[tuple[float, torch.Tensor]]:
    """Train a stack of models in the order of a log.

    Args:
        log: of a server that began without a checkpoint; it may be cut off at any update.
        start: the first parameters, [models, numbers]. Not changed.
        gradients: what a worker computes. Called once for each gradient of the log.
        rates: the learning rate of each model, [models].
        share: a gradient counts 1/share: the server's number of workers without its backups.
        momentum: the server's, as of torch.optim.SGD.

    Yields:
        After each update its time, in the log's seconds, and the parameters, [models, numbers], in a tensor of their
        own.

    Raises:
        ValueError: start is not two-dimensional, there are not as many rates as models, or a share below 1.
    """
    if start.ndim != 2 or rates.shape != start.shape[:1] or share < 1:
        raise ValueError(
            f"expected start of shape [models, numbers], a rate for each model and a share of at least 1, got "
            f"{list(start.shape)}, rates of shape {list(rates.shape)} and share={share}"
        )
    oldest = max((each.staleness for each in log.contributions), default=0)
    versions, velocity = {0: start}, torch.zeros_like(start)
    for version, update in enumerate(log.updates):
        total = torch.zeros_like(start)
        for each in update.contributions:
            with torch.enable_grad():
                total += gradients(versions[version - each.staleness], each.worker, each.clock).detach()
        velocity = momentum * velocity + total / share
        versions[version + 1] = versions[version] - rates.to(start.dtype)[:, None] * velocity
        versions.pop(version - oldest, None)
        yield update.time, versions[version + 1]
