from .checkpoints import (
    Checkpoints as Checkpoints,
)
from .checkpoints import (
    TornCheckpoint as TornCheckpoint,
)
from .checkpoints import (
    good_steps as good_steps,
)
from .checkpoints import (
    read_checkpoint as read_checkpoint,
)
from .checkpoints import (
    steps_in as steps_in,
)
from .checkpoints import (
    write_checkpoint as write_checkpoint,
)
from .elastic import run_elastic as run_elastic
from .environment import LaunchError as LaunchError
from .environment import read_placement as read_placement
from .head_connection import SILENCE as SILENCE
from .node_list import write_out as write_out
from .notice import REQUEUE as REQUEUE
from .notice import ends_soon as ends_soon
from .notice import give_notice as give_notice
