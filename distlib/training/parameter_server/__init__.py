"""Training with a parameter server: it has the parameters, the workers compute gradients. No worker knows another one.

    worker 1   pull ◄─ parameters   compute   push gradient ─►   pull ◄─ …        ┐
    worker 2   pull ◄─ parameters   compute      push gradient ─►   pull ◄─ …     ┼─►  server
    worker 3   pull ◄─ parameters   compute            push gradient ─►           ┘

With P bytes of parameters and N workers, 2·N·P bytes go through the server's port in each round, however many workers
there are: the server is the bottleneck, as the master of the naive all-reduce is. Several servers share it, each with a
part of the parameters (see `shards`).

What the server may do without, is to wait. Worker w has pushed `clocks[w]` gradients. Whoever is more than `bound`
gradients ahead of the slowest waits for its parameters:

    bound = 0          synchronous: everybody waits for everybody, in every step
    bound = s          stale-synchronous: the fastest may be s steps ahead
    bound = infinity   asynchronous: nobody waits

One loop does all three. A gradient is applied as soon as its worker may go on, together with all others of which that
is true, in the order of clocks and ranks. So with a bound of 0 a step is that of a single process that adds up the
gradients in the order of the ranks; without a bound each gradient is a step of its own.

Every gradient counts 1/N, in every mode: after the same number of samples all modes have moved by as many gradients.

Meanwhile others have changed the parameters that a gradient was computed with. How many updates there were is its
*staleness*. It is 0 in synchronous training.

Ranks fail:

    a worker dies      nobody waits for it any longer. A gradient of it that has come completely still counts
    a worker joins     with its first pull, also one that the server had given up on. Its clock starts at the slowest's
    a server dies      its workers get PeerLost. What it knew can be kept in a file (see `checkpoint`) and started again
                       from there, or on another rank (see `replica`), which then serves in its place

A gradient counts 1/N, where N is how many workers the training began with, also after a worker has died or joined. So
a step of fewer gradients is a shorter one, and after the same number of samples the parameters have moved by the same
number of gradients, whoever computed them. For the same reason learning rates follow a schedule by samples (*virtual
epochs*) instead of steps or passes over somebody's part of the data: a lost worker does not shift it.

M. Li et al., "Scaling Distributed Machine Learning with the Parameter Server", OSDI 2014. Q. Ho et al., "More Effective
Distributed ML via a Stale Synchronous Parallel Parameter Server", NIPS 2013, section 3. J. Chen et al., "Revisiting
Distributed Synchronous SGD", 2016, arXiv:1604.00981, section 3 (backup workers). W. Zhang et al., "Staleness-aware
Async-SGD for Distributed Deep Learning", IJCAI 2016, arXiv:1511.05950 (a weight that falls with the staleness).

plain       read this first: one server and its workers, synchronous or asynchronous

protocol    what workers and servers say to each other
log         what a server has done
server      the loop of a server
worker      the loop of a worker
checkpoint  what a server knows, in a file
replica     a second server that takes the place of one that dies
replay      training again what a log says, for many rates and seeds at once
digit_trials  replays that train a small classifier of digits: what the lessons and the game train
sparse      a table of which each step pulls and pushes only the rows that it touches
"""

from distlib.training.parameter_server.checkpoint import Checkpoint, Keep, keep_in_file, read_checkpoint
from distlib.training.parameter_server.log import Contribution, Refusal, ServerLog, Update
from distlib.training.parameter_server.protocol import GRADIENT, KEYS, LEAVE, PARAMETERS, PULL, PUSH, REQUEST, STATE
from distlib.training.parameter_server.replay import replay
from distlib.training.parameter_server.replica import keep_on_replica, replica_loop
from distlib.training.parameter_server.server import (
    ASYNCHRONOUS,
    SYNCHRONOUS,
    MakeOptimizer,
    may_proceed,
    server_loop,
)
from distlib.training.parameter_server.sparse import SparseClient, SparseLog, key_ranges, sparse_server_loop
from distlib.training.parameter_server.worker import ParameterClient, worker_loop

__all__ = [
    "ASYNCHRONOUS",
    "GRADIENT",
    "KEYS",
    "LEAVE",
    "PARAMETERS",
    "PULL",
    "PUSH",
    "REQUEST",
    "STATE",
    "SYNCHRONOUS",
    "Checkpoint",
    "Contribution",
    "Keep",
    "MakeOptimizer",
    "ParameterClient",
    "Refusal",
    "ServerLog",
    "SparseClient",
    "SparseLog",
    "Update",
    "keep_in_file",
    "keep_on_replica",
    "key_ranges",
    "may_proceed",
    "read_checkpoint",
    "replay",
    "replica_loop",
    "server_loop",
    "sparse_server_loop",
    "worker_loop",
]
