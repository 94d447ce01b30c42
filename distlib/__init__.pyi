from . import gpus as gpus
from . import launch as launch
from .collectives import (
    all_gather as all_gather,
)
from .collectives import (
    all_reduce as all_reduce,
)
from .collectives import (
    broadcast as broadcast,
)
from .collectives import (
    reduce as reduce,
)
from .collectives import (
    reduce_scatter as reduce_scatter,
)
from .collectives.dissemination import barrier as barrier
from .collectives.double_tree import double_tree_all_reduce as double_tree_all_reduce
from .collectives.grid import grid_all_reduce as grid_all_reduce
from .collectives.halving_doubling import halving_doubling_all_reduce as halving_doubling_all_reduce
from .collectives.hierarchical import hierarchical_all_reduce as hierarchical_all_reduce
from .collectives.pairwise import all_to_all as all_to_all
from .collectives.ring import (
    ring_all_gather as ring_all_gather,
)
from .collectives.ring import (
    ring_all_reduce as ring_all_reduce,
)
from .collectives.ring import (
    ring_reduce_scatter as ring_reduce_scatter,
)
from .collectives.scatter_gather import gather as gather
from .collectives.scatter_gather import scatter as scatter
from .collectives.tree import tree_all_reduce as tree_all_reduce
from .communicator import Communicator as Communicator
from .communicator import ReduceOp as ReduceOp
from .communicator import Work as Work
from .network import duration as duration
from .network import traffic as traffic
from .network.choice import (
    ALL_REDUCES as ALL_REDUCES,
)
from .network.choice import (
    all_reduce_seconds as all_reduce_seconds,
)
from .network.choice import (
    choose_all_reduce as choose_all_reduce,
)
from .network.choice import (
    crossover_bytes as crossover_bytes,
)
from .network.choice import (
    crossover_nodes as crossover_nodes,
)
from .network.cluster import Cluster as Cluster
from .network.cluster import Link as Link
from .network.two_trees import moves_up as moves_up
from .network.two_trees import two_trees as two_trees
from .partition import chunk_lengths as chunk_lengths
from .torch_backend.computing import charge_computing as charge_computing
from .torch_backend.enter import torch_distributed as torch_distributed
from .torch_backend.whole_program import run_program as run_program
from .trace import CallSite as CallSite
from .trace import Message as Message
from .trace import Trace as Trace
from .worlds.calibration import Comparison as Comparison
from .worlds.calibration import calibrate as calibrate
from .worlds.calibration import compare as compare
from .worlds.diagnosis import (
    DeadlockError as DeadlockError,
)
from .worlds.diagnosis import (
    MessageMismatch as MessageMismatch,
)
from .worlds.diagnosis import (
    PeerLost as PeerLost,
)
from .worlds.diagnosis import (
    RankError as RankError,
)
from .worlds.diagnosis import (
    ResultError as ResultError,
)
from .worlds.diagnosis import (
    RunTimeout as RunTimeout,
)
from .worlds.diagnosis import (
    TooMuchOutput as TooMuchOutput,
)
from .worlds.diagnosis import (
    UnreceivedMessage as UnreceivedMessage,
)
from .worlds.real.world import World as World
from .worlds.simulated.simulator import SimulatedWorld as SimulatedWorld
