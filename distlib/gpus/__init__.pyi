from . import recordings as recordings
from .bus_bandwidth import (
    HEADER as HEADER,
)
from .bus_bandwidth import (
    MeasuredAllReduce as MeasuredAllReduce,
)
from .bus_bandwidth import (
    fit_ring as fit_ring,
)
from .bus_bandwidth import (
    sent_at_least as sent_at_least,
)
from .bus_bandwidth import (
    sweep_all_reduce as sweep_all_reduce,
)
from .call_times import time_call as time_call
from .measurements import profile_ddp as profile_ddp
from .recordings import show as show
