from .checkpoints import (
    Checkpoints as Checkpoints,
    TornCheckpoint as TornCheckpoint,
    good_steps as good_steps,
    read_checkpoint as read_checkpoint,
    steps_in as steps_in,
    write_checkpoint as write_checkpoint,
)
from .elastic import run_elastic as run_elastic
from .environment import LaunchError as LaunchError, read_placement as read_placement
from .head_connection import SILENCE as SILENCE
from .node_list import write_out as write_out
from .notice import REQUEUE as REQUEUE, ends_soon as ends_soon, give_notice as give_notice
