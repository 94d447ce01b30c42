"""Rules: functions that return the first remark that they have, or None. Judges yield them in the order that matters.

values           is it right, is it what a usual mistake gives, is it untouched
returns          what a function returns that only computes
sent_messages    who sent whom how much: `sends`; and of a `TensorCase` rounds, steps, whole tensors
sums             whose values are inside the tensors of a `TensorCase`, and what usually makes them others
steps            how many steps the messages of a tree take
flat_all_reduce  one all-reduce of a flat tensor, which holds many
"""
