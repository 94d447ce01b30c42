"""Rules: functions that return the first remark that they have, or None. Judges yield them in the order that matters.

values       is it right, is it what a usual mistake gives, is it untouched
returns      what a function returns that only computes
messages     who sent whom how much: `sends`; and of a `TensorCase` rounds, steps, whole tensors
sums         whose values are inside the tensors of a `TensorCase`, and what usually makes them others
rings        rings of chunks: the two halves, and the values that wrong numbers of chunks leave
steps        how many steps the messages of a tree take
flat         one all-reduce of a flat tensor, which holds many
all_reduces  the all-reduces of flat buffers: how many, and of how many bytes
shares       layers that are cut: what each rank reads, holds, computes and sends
moments      when, in virtual time, a rank does what in a pass of training; for `judge_times`
"""
