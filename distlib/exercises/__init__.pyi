from .all_reduce.checks import (
    check_all_gather as check_all_gather,
    check_naive_all_reduce as check_naive_all_reduce,
    check_reduce_scatter as check_reduce_scatter,
    check_ring_all_reduce as check_ring_all_reduce,
)
from .capstone_project.board_scores import train_scores as train_scores
from .capstone_project.checks import (
    check_predict_step as check_predict_step,
    check_survive as check_survive,
    check_train as check_train,
    check_train_step as check_train_step,
)
from .capstone_project.gpt_job import GptJob as GptJob
from .capstone_project.job_cases import Challenge as Challenge, waiting_after as waiting_after
from .capstone_project.planned_steps import (
    PlannedStep as PlannedStep,
    bytes_between as bytes_between,
    simulated_seconds as simulated_seconds,
)
from .capstone_project.rehearsal import rehearse as rehearse
from .ddp.cases import Training as Training
from .ddp.checks import (
    check_assign_buckets as check_assign_buckets,
    check_average_gradients as check_average_gradients,
    check_sampler as check_sampler,
)
from .ddp.overlapped_ddp import check_overlapped_ddp as check_overlapped_ddp, hidden_share_of as hidden_share_of
from .ddp.torchs_ddp import Accumulation as Accumulation, check_train_with_ddp as check_train_with_ddp
from .decentralized.checks import (
    Gossip as Gossip,
    GossipTraining as GossipTraining,
    check_decentralized_step as check_decentralized_step,
    check_gossip_average as check_gossip_average,
    check_mixing_matrix as check_mixing_matrix,
)
from .environments.checkpoint_disks import Disks as Disks
from .environments.checks import (
    check_expand_nodelist as check_expand_nodelist,
    check_rendezvous_environment as check_rendezvous_environment,
    check_resume as check_resume,
)
from .environments.slurm_steps import SlurmStep as SlurmStep
from .frameworks.accelerate_plays import Accelerator as Accelerator
from .frameworks.checks import (
    check_accelerate_train as check_accelerate_train,
    check_fabric_train as check_fabric_train,
)
from .frameworks.evaluations import (
    check_accelerate_evaluate as check_accelerate_evaluate,
    check_fabric_evaluate as check_fabric_evaluate,
)
from .frameworks.fabric_plays import Fabric as Fabric
from .frameworks.real import try_on_the_real_one as try_on_the_real_one
from .hang_clinic.by_hand import Riddle as Riddle
from .hang_clinic.checks import (
    check_average_workers as check_average_workers,
    check_log_mean_loss as check_log_mean_loss,
    check_sum_of_files as check_sum_of_files,
    check_train_epoch as check_train_epoch,
    check_train_until as check_train_until,
)
from .hang_clinic.diagnoses import check_diagnose as check_diagnose
from .hang_clinic.failing import (
    check_average_by_name as check_average_by_name,
    check_gather_predictions as check_gather_predictions,
    check_mean_over_samples as check_mean_over_samples,
)
from .hang_clinic.groups import check_reduce_in_grid as check_reduce_in_grid
from .hang_clinic.silent import check_blend_with_next as check_blend_with_next, check_start_alike as check_start_alike
from .hybrid.cases import MeshPlan as MeshPlan
from .hybrid.checks import (
    check_build_mesh as check_build_mesh,
    check_choose_strategy as check_choose_strategy,
    check_clip_gradients as check_clip_gradients,
    check_hybrid_step as check_hybrid_step,
    check_layout_memory as check_layout_memory,
    check_layout_seconds as check_layout_seconds,
    check_mesh_groups as check_mesh_groups,
)
from .hybrid.two_axes_cases import TwoAxes as TwoAxes
from .hybrid.two_axes_checks import check_train_on_mesh as check_train_on_mesh
from .jax_programs.checks import (
    Cut as Cut,
    Descent as Descent,
    Ring as Ring,
    check_jax_ring as check_jax_ring,
    check_shardings as check_shardings,
    check_spmd_step as check_spmd_step,
)
from .large_batches.checks import (
    Pieces as Pieces,
    Rounds as Rounds,
    check_accumulate_gradients as check_accumulate_gradients,
    check_local_sgd_round as check_local_sgd_round,
    check_warmup_learning_rate as check_warmup_learning_rate,
)
from .long_and_sparse.checks import (
    check_dispatch_to_experts as check_dispatch_to_experts,
    check_ring_attention as check_ring_attention,
)
from .master.checks import (
    Step as Step,
    check_data_parallel_step as check_data_parallel_step,
    check_gather_outputs as check_gather_outputs,
    check_reduce_gradients as check_reduce_gradients,
    check_replicate as check_replicate,
    check_split_batch as check_split_batch,
)
from .messages.checks import (
    check_broadcast as check_broadcast,
    check_gather as check_gather,
    check_reduce as check_reduce,
    check_scatter as check_scatter,
    check_shift as check_shift,
)
from .parameter_server.checks import check_server_loop as check_server_loop, check_worker_loop as check_worker_loop
from .pipeline.cases import Plan as Plan
from .pipeline.checks import (
    check_gpipe as check_gpipe,
    check_one_forward_one_backward as check_one_forward_one_backward,
    check_run_stage as check_run_stage,
)
from .pipeline.pipelining_checks import TorchStep as TorchStep, check_pipeline_step as check_pipeline_step
from .shared import (
    Gradients as Gradients,
    check_answers as check_answers,
    check_each as check_each,
    tell_trainings as tell_trainings,
)
from .tensor_parallel.cases import Attention as Attention, Column as Column, Row as Row
from .tensor_parallel.checks import (
    check_column_parallel_linear as check_column_parallel_linear,
    check_parallel_attention as check_parallel_attention,
    check_row_parallel_linear as check_row_parallel_linear,
    check_vocabulary_parallel_loss as check_vocabulary_parallel_loss,
)
from .tensor_parallel.dtensor_checks import CutModel as CutModel, Sizes as Sizes, check_parallelize as check_parallelize
from .tensor_parallel.dtensor_plays import Transformer as Transformer
from .tensor_parallel.vocabulary_cases import Loss as Loss
from .tensorflow.checks import (
    Pipeline as Pipeline,
    Shares as Shares,
    check_distributed_train_step as check_distributed_train_step,
    check_global_batch_loss as check_global_batch_loss,
    check_shard_input as check_shard_input,
    check_tf_config as check_tf_config,
)
from .trees_and_grids.checks import (
    check_grid_all_reduce as check_grid_all_reduce,
    check_halving_doubling_all_reduce as check_halving_doubling_all_reduce,
    check_tree_all_reduce as check_tree_all_reduce,
)
from .trees_and_grids.predictions import (
    check_choose_algorithm as check_choose_algorithm,
    check_predict_time as check_predict_time,
)
from .zero.cases import Clipping as Clipping, Optimizing as Optimizing
from .zero.checkpoint_cases import Break as Break
from .zero.checkpoint_checks import (
    check_load_whole_state as check_load_whole_state,
    check_whole_state as check_whole_state,
)
from .zero.checks import (
    check_memory_by_stage as check_memory_by_stage,
    check_shard_gradients as check_shard_gradients,
    check_sharded_optimizer as check_sharded_optimizer,
)
from .zero.fsdp_cases import Wrapping as Wrapping
from .zero.fsdp_checks import check_train_fully_sharded as check_train_fully_sharded
from .zero.unit_cases import Sharding as Sharding
from .zero.unit_checks import check_fully_sharded_module as check_fully_sharded_module
