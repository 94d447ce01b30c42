"""`distlib launch`: a rank function of a script, on one machine or on several, unchanged.

run            what the command does: a World on this machine, or one rank per process of torchrun or srun
script         which function, with which arguments
node_list      the names in Slurm's short form, node[01-03,07]
environment    who a process is: its rank, its node, from torchrun's or Slurm's variables
rendezvous     where processes of several machines leave word for each other
secret_file    by what processes of one user know each other; `handshake`, how they prove it; `peer_user`, who it is
head           where their ranks meet, and from where the run is watched
rank, link     a rank, and its end of the connection to the head (`head_connection`)
checkpoints    what a run that has to end early goes on from; `notice`, that it has to
elastic        runs that go on with fewer ranks; `silence`, ranks that are there and do nothing
jobs           job scripts, for `sbatch`
slurm_world    SlurmWorld: the head is a notebook in a Slurm job, and srun starts ranks on the nodes (`slurm_node`)
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
