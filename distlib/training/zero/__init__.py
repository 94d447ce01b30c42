"""ZeRO and FSDP: what every rank would keep alike is sharded, and each rank keeps its own part.

plain_stage1        read this first: an optimizer that updates one shard, between a reduce-scatter and an all-gather
plain_stage3        then this: a unit of which each rank keeps a shard, and gathers the others to compute

sharded_optimizer   stage 1: the optimizer's states
sharded_gradients   stage 2: and gradients
fully_sharded       stage 3: and parameters

flat_buffer         several tensors in one flat buffer, which divides by the ranks
shard_unit          a unit: parameters that are gathered and averaged together
freed_unit          a unit that is freed and gathered again
unit_choice         which parameters form which unit
gradient_norm       the norm of all gradients, for clipping
elementwise         may this optimizer's tensors be cut?
whole_state         the state of the model without shards
optimizer_state     that of its optimizer
shard_files         a checkpoint in shards, for any number of ranks
step_plan           a step of a stage as a list of actions, to count and to play by shapes
stage_memory        what each stage keeps and sends, by formulas
process_memory      the memory of the process around them
live_bytes          what is alive in a step, by kind, counted
memory_golf         a game: the least time in the memory that there is
nested              the tensors in arguments and outputs

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
"""

from distlib.training.zero.elementwise import check_elementwise
from distlib.training.zero.flat_buffer import FlatLayout
from distlib.training.zero.fully_sharded import FullyShardedModule
from distlib.training.zero.gradient_norm import clip_gradients, gradient_norm
from distlib.training.zero.live_bytes import MemoryAccount, Sample
from distlib.training.zero.optimizer_state import load_whole_optimizer_state, whole_optimizer_state
from distlib.training.zero.process_memory import return_large_blocks
from distlib.training.zero.shard_files import load_shards, save_shards
from distlib.training.zero.sharded_gradients import ShardedGradients
from distlib.training.zero.sharded_optimizer import ShardedOptimizer
from distlib.training.zero.stage_memory import (
    bytes_sent_by_stage,
    first_stage_within,
    memory_by_stage,
    padded_bytes_by_stage,
)
from distlib.training.zero.step_plan import UnitAction, play_step, stage_plan, step_plan, whole_units

__all__ = [
    "FlatLayout",
    "FullyShardedModule",
    "MemoryAccount",
    "Sample",
    "ShardedGradients",
    "ShardedOptimizer",
    "UnitAction",
    "bytes_sent_by_stage",
    "check_elementwise",
    "clip_gradients",
    "first_stage_within",
    "gradient_norm",
    "load_shards",
    "load_whole_optimizer_state",
    "memory_by_stage",
    "padded_bytes_by_stage",
    "play_step",
    "return_large_blocks",
    "save_shards",
    "stage_plan",
    "step_plan",
    "whole_optimizer_state",
    "whole_units",
]
