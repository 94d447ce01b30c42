"""Which strategy for which hardware: layouts of dp × pp × tp, what each needs, and which one is fastest.

transformer_shape   how many parameters a transformer has, and how many operations a token takes
device              how fast a device is, and how much memory it has
parallel_layout     how a model and a batch are laid out over ranks, and which links the groups use
stage_work          what a stage computes and sends for a microbatch
step_memory         how many bytes each rank needs, by formulas
stage_time          how long the passes of one stage take
pipeline_time       how much longer every further microbatch takes
step_time           how long a step takes, by formulas
played_step         the same step played on simulated ranks: what the formulas are held against
strategy_search     all layouts, and the fastest that fits
strategy_choice     the choice, and why, in sentences
utilization         model FLOPs utilization
published_runs      layouts that people have trained with
cluster_game        a game: lay out the cluster
"""

from distlib.training.strategy.device import Device
from distlib.training.strategy.parallel_layout import ParallelLayout
from distlib.training.strategy.played_step import PlayedStep, simulate_step
from distlib.training.strategy.step_time import StepPrediction, predict_step
from distlib.training.strategy.strategy_choice import StrategyChoice
from distlib.training.strategy.strategy_search import all_layouts, choose_strategy
from distlib.training.strategy.transformer_shape import TransformerShape
from distlib.training.strategy.utilization import model_flops_utilization

__all__ = [
    "Device",
    "ParallelLayout",
    "PlayedStep",
    "StepPrediction",
    "StrategyChoice",
    "TransformerShape",
    "all_layouts",
    "choose_strategy",
    "model_flops_utilization",
    "predict_step",
    "simulate_step",
]
