"""Frameworks that the course takes apart, TensorFlow and JAX, each imported only where it is used.

processes    run_processes: a demonstration as named processes, their output, their end
forkservers  what they are forked from, kept for the next demonstration (see distlib.worlds.forkserver)
own_network  where they live: a network of their own, in which every port is free
in_process   what runs in each of them
reports      what became of a process
own_home     a command with a home and caches of its own
temporary    a folder for temporary files, which goes with them
tf_config    TF_CONFIG, checked
even_shares  batches and arrays that divide by the devices
optional     a framework, or one sentence if this Python has none
on_demand    fetch: the same, installed when it is first needed

jax_collectives    what a compiled JAX program communicates, counted and in bytes
jax_ring           the ring all-reduce with ppermute
tensorflow_graphs  what a TensorFlow function communicates, and where variables live
tensorflow_ring_log      TensorFlow's own log of its ring all-reduce
tensorflow_classifier    the classifier of the earlier lessons, in Keras
tensorflow_cluster       workers, parameter servers and their coordinator, as processes
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
