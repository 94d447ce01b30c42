"""Questions for an exam, with answers that are computed: `distlib questions --seed 7`.

    exam_question        what a question is, and the bank of all
    number_words         numbers as a question shows them
    about_messages       what each rank sends
    about_all_reduce     the same, where all have the sum
    about_times          how long it takes: α, β and the number of rounds
    about_data           data parallel: batches, buckets, learning rates, workers that wait
    about_pipelines      schedules and their bubbles
    about_memory         ZeRO, tensor parallel, checkpoints
    about_layouts        meshes, gossip, long sequences, experts, nodes
    exam_sheet           questions, and answers with their working, as Markdown or JSON

A question is a function from a generator of random numbers to a text, an answer and its working. The numbers come from
the seed and the question's name alone: a sheet with other questions has the same numbers for this one. The answer comes
from the formulas of this package; the tests compute each a second way, most of them by simulation.
"""
