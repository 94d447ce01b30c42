"""Rules: functions that return the first remark that they have, or None. Judges yield them in the order that matters.

values      is it right, is it what a usual mistake gives, is it untouched
returns     what a function returns that only computes
messages    who sent whom how much, in how many messages, rounds and steps
sums        whose values are inside a tensor, and what usually makes them others
"""
