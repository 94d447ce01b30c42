from . import recordings as recordings
from .bus_bandwidth import (
    HEADER as HEADER,
    MeasuredAllReduce as MeasuredAllReduce,
    fit_ring as fit_ring,
    sent_at_least as sent_at_least,
    sweep_all_reduce as sweep_all_reduce,
)
from .call_times import time_call as time_call
from .measurements import profile_ddp as profile_ddp
from .recordings import show as show
