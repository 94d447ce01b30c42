from . import gpus as gpus, launch as launch
from .collectives import (
    all_gather as all_gather,
    all_reduce as all_reduce,
    broadcast as broadcast,
    reduce as reduce,
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
    ring_all_reduce as ring_all_reduce,
    ring_reduce_scatter as ring_reduce_scatter,
)
from .collectives.scatter_gather import gather as gather, scatter as scatter
from .collectives.tree import tree_all_reduce as tree_all_reduce
from .communicator import Communicator as Communicator, ReduceOp as ReduceOp, Work as Work
from .network import duration as duration, traffic as traffic
from .network.choice import (
    ALL_REDUCES as ALL_REDUCES,
    all_reduce_seconds as all_reduce_seconds,
    choose_all_reduce as choose_all_reduce,
    crossover_bytes as crossover_bytes,
    crossover_nodes as crossover_nodes,
)
from .network.cluster import Cluster as Cluster, Link as Link
from .network.two_trees import moves_up as moves_up, two_trees as two_trees
from .partition import chunk_lengths as chunk_lengths
from .torch_backend.computing import charge_computing as charge_computing
from .torch_backend.enter import torch_distributed as torch_distributed
from .torch_backend.whole_program import run_program as run_program
from .trace import CallSite as CallSite, Message as Message, Trace as Trace
from .worlds.calibration import Comparison as Comparison, calibrate as calibrate, compare as compare
from .worlds.diagnosis import (
    DeadlockError as DeadlockError,
    MessageMismatch as MessageMismatch,
    PeerLost as PeerLost,
    RankError as RankError,
    ResultError as ResultError,
    RunTimeout as RunTimeout,
    TooMuchOutput as TooMuchOutput,
    UnreceivedMessage as UnreceivedMessage,
)
from .worlds.real.world import World as World
from .worlds.simulated.simulator import SimulatedWorld as SimulatedWorld
