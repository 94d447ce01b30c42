"""Each worker reports its loss. What does the result have of it?"""

import tempfile

import ray
from ray import train
from ray.train import Checkpoint, ScalingConfig
from ray.train.torch import TorchTrainer


def without_checkpoint() -> None:
    """Report a number, and no checkpoint."""
    train.report({"loss": 0.25})


def with_checkpoint() -> None:
    """Report a number with a checkpoint, which may be an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        train.report({"loss": 0.25}, checkpoint=Checkpoint.from_directory(folder))


ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, _node_ip_address="127.0.0.1")
for work in (without_checkpoint, with_checkpoint):
    result = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit()
    print(f"{work.__name__}: result.metrics is {result.metrics}")
ray.shutdown()
