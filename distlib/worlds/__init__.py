"""Where ranks live: on real processes or in simulated time. `real` has World, `simulated` has SimulatedWorld.

diagnosis      what a failed run reports
deaths         ranks that die in a run which goes on without them
call_site      which line of the student's code is talking
call_order     what is said of started calls that can't run in their order
message_check  what can be wrong with the arguments of a call
tensor_bytes   a tensor as bytes
pickling       a function and its arguments as bytes
forkserver     a process that has imported what takes long, and is forked when another one is needed
not_compiled   torch.compile leaves the library to Python
native_stack   where a process is that does not react, or was when it crashed
rank_call      what comes of the call of a rank's function
with_cache     how functions with a cache travel
calibration    latency and bandwidth of this machine, measured
"""
