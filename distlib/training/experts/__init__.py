"""A mixture of experts over ranks: each token goes to a few of them, wherever they are.

plain          read this first: two experts per token, and the all-to-alls there and back

router         which experts a token goes to, and with what weight
load_balance   the auxiliary loss that keeps all experts busy
capacity       which tokens an expert has room for
dispatch       tokens to their experts and back: two all-to-alls with counts that differ
mixture        the layer
expert_times   what an unbalanced router costs, in virtual time

N. Shazeer et al., arXiv:1701.06538 (2017); D. Lepikhin et al., arXiv:2006.16668 (2020); W. Fedus et al.,
arXiv:2101.03961 (2021).
"""

from distlib.training.experts.capacity import expert_capacity, has_room
from distlib.training.experts.dispatch import Dispatched, combine, dispatch_to_experts
from distlib.training.experts.expert_times import ExpertTimes, expert_seconds, play_experts
from distlib.training.experts.load_balance import load_balancing_loss
from distlib.training.experts.mixture import Expert, MixtureOfExperts, sum_router_gradients
from distlib.training.experts.router import Routing, TopKRouter, route

__all__ = [
    "Dispatched",
    "Expert",
    "ExpertTimes",
    "MixtureOfExperts",
    "Routing",
    "TopKRouter",
    "combine",
    "dispatch_to_experts",
    "expert_capacity",
    "expert_seconds",
    "has_room",
    "load_balancing_loss",
    "play_experts",
    "route",
    "sum_router_gradients",
]
