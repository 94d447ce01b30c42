"""Several ways of training at once, each along an axis of a mesh of ranks: dp, pp, tp.

coordinates           which rank stands where, and which ranks form a group
mesh_text             a mesh as text
rank_mesh             Mesh: a communicator for each axis

small_transformer     a language model that can be cut along pp and tp
plain_transformer     the same in torch's own modules, whole
cut_parameters        which part of a whole parameter a rank has
replicated_optimizer  the plain way along dp
sharded_stages        ZeRO stage 3 along dp
hybrid                HybridTrainer: a step in three directions
global_norm           the norm of all gradients, each number counted once
axis_traffic          messages and bytes of a run by axis, and by formula
"""

from distlib.training.mesh.axis_traffic import AxisTraffic, step_traffic, traffic_by_axis
from distlib.training.mesh.coordinates import coordinates_of, mesh_groups, rank_at
from distlib.training.mesh.cut_parameters import cut_parameters, cuts_of, own_parts
from distlib.training.mesh.hybrid import HybridTrainer
from distlib.training.mesh.mesh_text import mesh_text
from distlib.training.mesh.rank_mesh import Mesh
from distlib.training.mesh.small_transformer import SmallTransformer, VocabularyHead

__all__ = [
    "AxisTraffic",
    "HybridTrainer",
    "Mesh",
    "SmallTransformer",
    "VocabularyHead",
    "coordinates_of",
    "cut_parameters",
    "cuts_of",
    "mesh_groups",
    "mesh_text",
    "own_parts",
    "rank_at",
    "step_traffic",
    "traffic_by_axis",
]
