"""Which rank produced an infinite or NaN gradient?

One such number on one rank spoils the sum, and with it the weights of all ranks. Afterwards nobody can tell where it
came from, so look while each rank still has its own gradients.
"""

from __future__ import annotations

import torch

from distlib.collectives import all_gather
from distlib.communicator import Communicator
from distlib.training.ddp.bucket import Bucket


def check_finite(comm: Communicator, bucket: Bucket) -> None:
    """Check a bucket that has been summed up, while each rank still has its own gradients.

    A sum that is not finite is not finite on any rank. So either all ranks go on, or all exchange what they found.

    Raises:
        FloatingPointError: on every rank, with the ranks and parameters that the bad numbers came from.
    """
    if bool(bucket.flat.sum().isfinite()) or bool(bucket.flat.isfinite().all()):  # the first is quick, and usual
        return
    bad = [p.grad is not None and not bool(p.grad.isfinite().all()) for p in bucket.parameters.values()]
    everybody = torch.zeros(comm.world_size, len(bad), dtype=torch.uint8)
    everybody[comm.rank] = torch.tensor(bad)
    all_gather(comm, everybody)
    found = []
    for rank, row in enumerate(everybody.tolist()):
        parameters = [name for name, is_bad in zip(bucket.parameters, row, strict=True) if is_bad]
        if parameters:
            found.append(f"rank {rank} ({', '.join(parameters)})")
    where = " and ".join(found) or "no rank: only their sum is too large"
    raise FloatingPointError(
        f"infinite or NaN gradients, on {where}. Look at the loss and the data there, "
        "or at the learning rate; check_finite=False turns this check off, as a GradScaler needs."
    )
