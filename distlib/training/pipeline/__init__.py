"""Pipeline parallelism: the layers of a model over several ranks, and microbatches that go through them.

plain         read this first: one stage per rank, one forward, one backward in turn

cutting       layers into stages, by what they cost and not by how many they are
plan          which message each action of a schedule needs, and where its result goes
shapes        what travels between the stages: found before anything is computed; stages that do not fit are named
messages      activations and gradients between ranks; receives are posted ahead, so no schedule deadlocks
passes        forward and backward of one stage, whole or in two halves, recomputed if asked
activations   which tensors are kept for the backward pass, measured
tied          weights that two stages share
executor      Pipeline, which puts these together and runs any schedule of `distlib.training.schedules`
"""

from distlib.training.pipeline.activations import ActivationMeter
from distlib.training.pipeline.cutting import cut_by_cost, measure_costs, stages_of
from distlib.training.pipeline.executor import Pipeline, StepRecord

__all__ = [
    "ActivationMeter",
    "Pipeline",
    "StepRecord",
    "cut_by_cost",
    "measure_costs",
    "stages_of",
]
