"""Training on several ranks, one method a module. None of them knows another.

Read the plain edition of a method first, where it has one: a file called `plain`, without options.

data_parallel     one model, its batch split by a master rank
ddp               a model on every rank, gradients summed while backward runs (`buckets`)
zero              optimizer states, gradients and parameters in shards: ZeRO, FSDP
long_sequences    attention over a sequence in parts: ring attention, Ulysses
experts           a mixture of experts over ranks: tokens travel to their experts and back
backward_pass     which backward pass is this: a new one, or one inside another?
replicas          the same model on every rank: compared, and copied from rank 0
same_parameters   has a model still the parameters that its wrapper knows?
parts_of_whole    parameters that are cut over ranks, and torch's functions that would take a part for the whole
one_rank_only     what can't be copied or pickled says what to copy instead
sampler           which samples a rank trains on
large_batch       accumulated gradients, warm-up of the learning rate, local SGD
parameter_server  servers that keep the parameters, workers that push gradients (`shards`)
gossip            averages with neighbors only, decentralized SGD, push-sum (`mixing`: who talks to whom)
plain_gossip      decentralized SGD: the plain edition of gossip
strategy          which layout of copies, stages and shared layers for which hardware
model_stack       many small models trained at once, for experiments
mesh              several methods at once, each along an axis of a mesh of ranks: the one that knows others
datasets          what the lessons train on
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
