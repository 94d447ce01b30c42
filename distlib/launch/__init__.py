"""`distlib launch`: a rank function of a script, on one machine or on several, unchanged.

node_list      the names in Slurm's short form, node[01-03,07]
environment    who a process is: its rank, its node, from torchrun's or Slurm's variables
"""
