"""The way to GPUs: what is measured there, how, and what it gave on a real card.

bus_bandwidth     all-reduces of many sizes, in the convention of NCCL's benchmarks; the link that they amount to
profiler_trace    what torch.profiler has seen of a training step, as spans that `draw.step_timeline` draws
measurements      what only a GPU can show: queues, copies, number formats, memory
recordings        each measurement with card, versions, date and command; or the sentence that there is none yet

    python -m distlib.gpus           runs all measurements on this machine's GPU and records them
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
