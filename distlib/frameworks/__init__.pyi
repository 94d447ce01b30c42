from . import tensorflow_cluster as tensorflow_cluster
from .even_shares import replica_batch as replica_batch, shard_shape as shard_shape
from .jax_collectives import (
    Collective as Collective,
    bytes_sent as bytes_sent,
    collectives as collectives,
    counted as counted,
)
from .jax_ring import ring_all_reduce as ring_all_reduce
from .on_demand import fetch as fetch
from .optional import require as require
from .own_network import addresses as addresses
from .processes import Process as Process, prepare_processes as prepare_processes, run_processes as run_processes
from .reports import (
    Outcome as Outcome,
    ProcessDied as ProcessDied,
    ProcessError as ProcessError,
    ProcessTimeout as ProcessTimeout,
)
from .tensorflow_classifier import (
    Classifier as Classifier,
    Weights as Weights,
    flat as flat,
    furthest as furthest,
    times_too_large as times_too_large,
)
from .tensorflow_cluster import task_environment as task_environment
from .tensorflow_graphs import (
    all_reduces as all_reduces,
    copies as copies,
    reductions as reductions,
    variable_devices as variable_devices,
)
from .tensorflow_ring_log import ADDS as ADDS, LOGGED as LOGGED, as_trace as as_trace, ring_messages as ring_messages
from .tf_config import TfConfig as TfConfig, parse_tf_config as parse_tf_config
