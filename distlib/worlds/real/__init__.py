"""Ranks that are processes of this machine, from top to bottom:

world          World: runs a function on every rank
supervisor     one run: waits for results, finds deadlocks and dead ranks
rank_pool      the processes, kept from one run to the next
forkserver     what they are forked from: it has imported torch
rank_process   what each of them does
process_group  the Communicator that the function is given
endpoint       its messages: agreed on by small control messages (`mailbox`), then moved
               (`transport`, `shared_memory`), in the background if asked to (`background`)
status_board   where each rank says what it waits for
output_relay   what ranks print
pacing         messages slowed down to the speed of a given network (`port_table`)
"""
