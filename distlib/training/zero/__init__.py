"""ZeRO and FSDP: what every rank would keep alike is sharded, each rank keeps its own part.

sharded_optimizer   stage 1: the optimizer's states
sharded_gradients   stage 2: and gradients
fully_sharded       stage 3: and parameters

flat_buffer         several tensors in one flat buffer, which divides by the ranks
shard_unit          a unit: parameters that are gathered and averaged together
freed_unit          a unit that is freed and gathered again
unit_choice         which parameters form which unit
gradient_norm       the norm of all gradients, for clipping
elementwise         may this optimizer's tensors be cut?

S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020.
"""

from distlib.training.zero.flat_buffer import FlatLayout
from distlib.training.zero.fully_sharded import FullyShardedModule
from distlib.training.zero.sharded_gradients import ShardedGradients
from distlib.training.zero.sharded_optimizer import ShardedOptimizer

__all__ = ["FlatLayout", "FullyShardedModule", "ShardedGradients", "ShardedOptimizer"]
