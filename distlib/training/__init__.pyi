from . import data_parallel as data_parallel
from . import experts as experts
from . import long_sequences as long_sequences
from . import mesh as mesh
from . import mixing as mixing
from . import schedules as schedules
from . import tensor_parallel as tensor_parallel
from . import zero as zero
from .buckets import assign_buckets as assign_buckets
from .data_parallel import (
    data_parallel_step as data_parallel_step,
)
from .data_parallel import (
    gather_outputs as gather_outputs,
)
from .data_parallel import (
    replicate as replicate,
)
from .data_parallel import (
    split_batch as split_batch,
)
from .datasets import digits as digits
from .ddp.checkpoint import load_checkpoint as load_checkpoint
from .ddp.checkpoint import save_checkpoint as save_checkpoint
from .ddp.module import VERSIONS as VERSIONS
from .ddp.module import DistributedDataParallel as DistributedDataParallel
from .ddp.plain import PlainDDP as PlainDDP
from .ddp.plain import average_per_parameter as average_per_parameter
from .ddp.step_times import Span as Span
from .ddp.step_times import StepClock as StepClock
from .ddp.step_times import StepTimes as StepTimes
from .experts.expert_times import play_experts as play_experts
from .experts.plain import PlainMixture as PlainMixture
from .gossip import (
    consensus_error as consensus_error,
)
from .gossip import (
    decentralized_step as decentralized_step,
)
from .gossip import (
    gossip_average as gossip_average,
)
from .gossip import (
    push_sum as push_sum,
)
from .large_batch import (
    Batch as Batch,
)
from .large_batch import (
    accumulate_gradients as accumulate_gradients,
)
from .large_batch import (
    local_sgd_round as local_sgd_round,
)
from .large_batch import (
    warmup_learning_rate as warmup_learning_rate,
)
from .long_sequences.plain import plain_ring_attention as plain_ring_attention
from .long_sequences.ulysses import ulysses_attention as ulysses_attention
from .mesh.hybrid import HybridTrainer as HybridTrainer
from .mesh.plain_transformer import plain_layers as plain_layers
from .mesh.plain_transformer import plain_state as plain_state
from .mesh.rank_mesh import Mesh as Mesh
from .mesh.small_transformer import SmallTransformer as SmallTransformer
from .mixing import (
    check_mixing_matrix as check_mixing_matrix,
)
from .mixing import (
    contraction as contraction,
)
from .mixing import (
    metropolis_weights as metropolis_weights,
)
from .mixing import (
    one_peer_exponential as one_peer_exponential,
)
from .mixing import (
    push_weights as push_weights,
)
from .mixing import (
    rounds_for as rounds_for,
)
from .mixing import (
    static_exponential as static_exponential,
)
from .model_stack import ModelStack as ModelStack
from .parameter_server.checkpoint import keep_in_file as keep_in_file
from .parameter_server.checkpoint import read_checkpoint as read_checkpoint
from .parameter_server.digit_trials import (
    answers_of as answers_of,
)
from .parameter_server.digit_trials import (
    digit_classifier as digit_classifier,
)
from .parameter_server.digit_trials import (
    digit_images as digit_images,
)
from .parameter_server.digit_trials import (
    images_of_steps as images_of_steps,
)
from .parameter_server.digit_trials import (
    losses_of as losses_of,
)
from .parameter_server.digit_trials import (
    replay_digits as replay_digits,
)
from .parameter_server.log import Contribution as Contribution
from .parameter_server.log import ServerLog as ServerLog
from .parameter_server.log import Update as Update
from .parameter_server.protocol import GRADIENT as GRADIENT
from .parameter_server.protocol import PARAMETERS as PARAMETERS
from .parameter_server.protocol import REQUEST as REQUEST
from .parameter_server.replay import replay as replay
from .parameter_server.replica import keep_on_replica as keep_on_replica
from .parameter_server.replica import replica_loop as replica_loop
from .parameter_server.server import (
    ASYNCHRONOUS as ASYNCHRONOUS,
)
from .parameter_server.server import (
    SYNCHRONOUS as SYNCHRONOUS,
)
from .parameter_server.server import (
    server_loop as server_loop,
)
from .parameter_server.sparse import (
    SparseClient as SparseClient,
)
from .parameter_server.sparse import (
    key_ranges as key_ranges,
)
from .parameter_server.sparse import (
    sparse_server_loop as sparse_server_loop,
)
from .parameter_server.worker import ParameterClient as ParameterClient
from .parameter_server.worker import worker_loop as worker_loop
from .pipeline.activations import ActivationMeter as ActivationMeter
from .pipeline.cutting import measure_costs as measure_costs
from .pipeline.cutting import stages_of as stages_of
from .pipeline.executor import Pipeline as Pipeline
from .pipeline.executor import StepRecord as StepRecord
from .replicas import copy_from_rank_0 as copy_from_rank_0
from .sampler import DistributedSampler as DistributedSampler
from .schedules.actions import Schedule as Schedule
from .schedules.actions import parse_schedule as parse_schedule
from .schedules.execution import (
    ScheduleError as ScheduleError,
)
from .schedules.execution import (
    check_schedule as check_schedule,
)
from .schedules.execution import (
    execution_order as execution_order,
)
from .schedules.gpipe import gpipe as gpipe
from .schedules.interleaved import interleaved_1f1b as interleaved_1f1b
from .schedules.memory import most_live as most_live
from .schedules.naive import naive as naive
from .schedules.one_forward_one_backward import one_forward_one_backward as one_forward_one_backward
from .schedules.text_grid import schedule_grid as schedule_grid
from .schedules.timing import Costs as Costs
from .schedules.timing import Timing as Timing
from .schedules.timing import time_schedule as time_schedule
from .schedules.zero_bubble import zero_bubble as zero_bubble
from .schedules.zero_bubble_v import zero_bubble_v as zero_bubble_v
from .shards import flatten as flatten
from .shards import shard_parameters as shard_parameters
from .strategy.device import Device as Device
from .strategy.parallel_layout import ParallelLayout as ParallelLayout
from .strategy.played_step import simulate_step as simulate_step
from .strategy.published_runs import LLAMA as LLAMA
from .strategy.published_runs import MEGATRON as MEGATRON
from .strategy.published_runs import PublishedRun as PublishedRun
from .strategy.step_time import StepPrediction as StepPrediction
from .strategy.step_time import predict_step as predict_step
from .strategy.strategy_choice import StrategyChoice as StrategyChoice
from .strategy.strategy_search import all_layouts as all_layouts
from .strategy.strategy_search import choose_strategy as choose_strategy
from .strategy.transformer_shape import TransformerShape as TransformerShape
from .tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy as vocabulary_parallel_cross_entropy
