from . import tensorflow_cluster as tensorflow_cluster
from .even_shares import replica_batch as replica_batch
from .even_shares import shard_shape as shard_shape
from .jax_collectives import (
    Collective as Collective,
)
from .jax_collectives import (
    bytes_sent as bytes_sent,
)
from .jax_collectives import (
    collectives as collectives,
)
from .jax_collectives import (
    counted as counted,
)
from .jax_ring import ring_all_reduce as ring_all_reduce
from .on_demand import fetch as fetch
from .optional import require as require
from .own_network import addresses as addresses
from .processes import Process as Process
from .processes import prepare_processes as prepare_processes
from .processes import run_processes as run_processes
from .reports import (
    Outcome as Outcome,
)
from .reports import (
    ProcessDied as ProcessDied,
)
from .reports import (
    ProcessError as ProcessError,
)
from .reports import (
    ProcessTimeout as ProcessTimeout,
)
from .tensorflow_classifier import (
    Classifier as Classifier,
)
from .tensorflow_classifier import (
    Weights as Weights,
)
from .tensorflow_classifier import (
    flat as flat,
)
from .tensorflow_classifier import (
    furthest as furthest,
)
from .tensorflow_classifier import (
    times_too_large as times_too_large,
)
from .tensorflow_cluster import task_environment as task_environment
from .tensorflow_graphs import (
    all_reduces as all_reduces,
)
from .tensorflow_graphs import (
    copies as copies,
)
from .tensorflow_graphs import (
    reductions as reductions,
)
from .tensorflow_graphs import (
    variable_devices as variable_devices,
)
from .tensorflow_ring_log import ADDS as ADDS
from .tensorflow_ring_log import LOGGED as LOGGED
from .tensorflow_ring_log import as_trace as as_trace
from .tensorflow_ring_log import ring_messages as ring_messages
from .tf_config import TfConfig as TfConfig
from .tf_config import parse_tf_config as parse_tf_config
