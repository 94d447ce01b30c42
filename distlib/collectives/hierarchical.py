"""All-reduce inside the nodes, between the nodes, and inside again: few bytes over the slow links.

    node 0: ranks 0–3    1. reduce-scatter inside each node, in a ring: rank 1 has chunk 1 of the sum of node 0
    node 1: ranks 4–7    2. all-reduce between nodes, by halving and doubling: ranks 1 and 5 complete chunk 1,
                            ranks 2 and 6 chunk 2, …; each rank uses its own link
                         3. all-gather inside each node, in a ring

Cost for n nodes of G ranks and S bytes: inside, 2(G−1)·(α + S/(G·B)) on the links of the node; between, with n a power
of two, 2·log₂ n·α' + 2(n−1)/n·S/(G·B'). A ring through all ranks would take 2(n·G−1) rounds, each as slow as the link
between two nodes, and send 2·S over it where this sends 2·S/G.

It is a grid whose rows are the nodes. But latency between nodes is high, so there it uses an algorithm of few rounds.
Reducing to one rank per node instead of scattering would leave the links of the other ranks idle.

Source: for the idea, X. Jia et al., "Highly scalable deep learning training system with mixed-precision: training
ImageNet in four minutes", arXiv:1807.11205, 2018; Horovod's NCCLHierarchicalAllreduce has these three steps.
"""

from __future__ import annotations

import torch

from distlib.collectives.arguments import check_divides
from distlib.collectives.cluster_of import cluster_of
from distlib.collectives.collective import collective
from distlib.collectives.group import RankGroup
from distlib.collectives.halving_doubling import halving_doubling_all_reduce
from distlib.collectives.ring import ring_all_gather, ring_reduce_scatter
from distlib.communicator import Communicator, ReduceOp
from distlib.partition import chunks_of


@collective("all_reduce", algorithm="hierarchical")
def hierarchical_all_reduce(
    comm: Communicator, tensor: torch.Tensor, op: ReduceOp = ReduceOp.SUM, *, ranks_per_node: int | None = None
) -> None:
    """All-reduce by nodes, in place. Rank r is on node r // ranks_per_node. See `all_reduce`, and the module.

    Args:
        ranks_per_node: how many ranks are on a node; None for what the communicator's cluster says, else all on one.

    Raises:
        ValueError: `op` has no meaning for the dtype, or `ranks_per_node` does not divide the number of ranks.
    """
    if ranks_per_node is None:
        ranks_per_node = cluster_of(comm).ranks_per_node
    ranks_per_node = check_divides(comm, ranks_per_node=ranks_per_node)
    node, local_rank = divmod(comm.rank, ranks_per_node)
    my_node = RankGroup(comm, range(node * ranks_per_node, (node + 1) * ranks_per_node))
    my_peers = RankGroup(comm, range(local_rank, comm.world_size, ranks_per_node))  # one rank of each node
    my_chunk = chunks_of(tensor, ranks_per_node)[local_rank]
    ring_reduce_scatter(my_node, tensor, op)
    halving_doubling_all_reduce(my_peers, my_chunk, op)
    ring_all_gather(my_node, tensor)
