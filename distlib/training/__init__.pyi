from . import (
    data_parallel as data_parallel,
    experts as experts,
    long_sequences as long_sequences,
    mesh as mesh,
    mixing as mixing,
    schedules as schedules,
    tensor_parallel as tensor_parallel,
    zero as zero,
)
from .buckets import assign_buckets as assign_buckets
from .data_parallel import (
    data_parallel_step as data_parallel_step,
    gather_outputs as gather_outputs,
    replicate as replicate,
    split_batch as split_batch,
)
from .datasets import digits as digits
from .ddp.checkpoint import load_checkpoint as load_checkpoint, save_checkpoint as save_checkpoint
from .ddp.module import VERSIONS as VERSIONS, DistributedDataParallel as DistributedDataParallel
from .ddp.plain import PlainDDP as PlainDDP, average_per_parameter as average_per_parameter
from .ddp.step_times import Span as Span, StepClock as StepClock, StepTimes as StepTimes
from .experts.expert_times import play_experts as play_experts
from .experts.plain import PlainMixture as PlainMixture
from .gossip import (
    consensus_error as consensus_error,
    decentralized_step as decentralized_step,
    gossip_average as gossip_average,
    push_sum as push_sum,
)
from .large_batch import (
    Batch as Batch,
    accumulate_gradients as accumulate_gradients,
    local_sgd_round as local_sgd_round,
    warmup_learning_rate as warmup_learning_rate,
)
from .long_sequences.plain import plain_ring_attention as plain_ring_attention
from .long_sequences.ulysses import ulysses_attention as ulysses_attention
from .mesh.hybrid import HybridTrainer as HybridTrainer
from .mesh.plain_transformer import plain_layers as plain_layers, plain_state as plain_state
from .mesh.rank_mesh import Mesh as Mesh
from .mesh.small_transformer import SmallTransformer as SmallTransformer
from .mixing import (
    check_mixing_matrix as check_mixing_matrix,
    contraction as contraction,
    metropolis_weights as metropolis_weights,
    one_peer_exponential as one_peer_exponential,
    push_weights as push_weights,
    rounds_for as rounds_for,
    static_exponential as static_exponential,
)
from .model_stack import ModelStack as ModelStack
from .parameter_server.checkpoint import keep_in_file as keep_in_file, read_checkpoint as read_checkpoint
from .parameter_server.digit_trials import (
    answers_of as answers_of,
    digit_classifier as digit_classifier,
    digit_images as digit_images,
    images_of_steps as images_of_steps,
    losses_of as losses_of,
    replay_digits as replay_digits,
)
from .parameter_server.log import Contribution as Contribution, ServerLog as ServerLog, Update as Update
from .parameter_server.protocol import GRADIENT as GRADIENT, PARAMETERS as PARAMETERS, REQUEST as REQUEST
from .parameter_server.replay import replay as replay
from .parameter_server.replica import keep_on_replica as keep_on_replica, replica_loop as replica_loop
from .parameter_server.server import (
    ASYNCHRONOUS as ASYNCHRONOUS,
    SYNCHRONOUS as SYNCHRONOUS,
    server_loop as server_loop,
)
from .parameter_server.sparse import (
    SparseClient as SparseClient,
    key_ranges as key_ranges,
    sparse_server_loop as sparse_server_loop,
)
from .parameter_server.worker import ParameterClient as ParameterClient, worker_loop as worker_loop
from .pipeline.activations import ActivationMeter as ActivationMeter
from .pipeline.cutting import measure_costs as measure_costs, stages_of as stages_of
from .pipeline.executor import Pipeline as Pipeline, StepRecord as StepRecord
from .replicas import copy_from_rank_0 as copy_from_rank_0
from .sampler import DistributedSampler as DistributedSampler
from .schedules.actions import Schedule as Schedule, parse_schedule as parse_schedule
from .schedules.execution import (
    ScheduleError as ScheduleError,
    check_schedule as check_schedule,
    execution_order as execution_order,
)
from .schedules.gpipe import gpipe as gpipe
from .schedules.interleaved import interleaved_1f1b as interleaved_1f1b
from .schedules.memory import most_live as most_live
from .schedules.naive import naive as naive
from .schedules.one_forward_one_backward import one_forward_one_backward as one_forward_one_backward
from .schedules.text_grid import schedule_grid as schedule_grid
from .schedules.timing import Costs as Costs, Timing as Timing, time_schedule as time_schedule
from .schedules.zero_bubble import zero_bubble as zero_bubble
from .schedules.zero_bubble_v import zero_bubble_v as zero_bubble_v
from .shards import flatten as flatten, shard_parameters as shard_parameters
from .strategy.device import Device as Device
from .strategy.parallel_layout import ParallelLayout as ParallelLayout
from .strategy.played_step import simulate_step as simulate_step
from .strategy.published_runs import LLAMA as LLAMA, MEGATRON as MEGATRON, PublishedRun as PublishedRun
from .strategy.step_time import StepPrediction as StepPrediction, predict_step as predict_step
from .strategy.strategy_choice import StrategyChoice as StrategyChoice
from .strategy.strategy_search import all_layouts as all_layouts, choose_strategy as choose_strategy
from .strategy.transformer_shape import TransformerShape as TransformerShape
from .tensor_parallel.vocabulary import vocabulary_parallel_cross_entropy as vocabulary_parallel_cross_entropy
