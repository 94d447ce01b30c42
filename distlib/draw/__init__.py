"""Pictures of a run, drawn from what happened: the only place that imports matplotlib and widgets.

    timeline                 ranks × time (or × rounds), an arrow for each message
    play_timeline            the same, to play and to step through
    bytes_per_rank           what each rank sent and received
    play_chunks              which rank's contributions are in which chunk, round by round, to step through
    predict                  a number, a choice or an order, committed to before the run and compared after it
    race                     which all-reduce is the fastest by the model, over message sizes or ranks
    explore_race             the same with sliders
    play_cluster             a game: lay out a model on a cluster, with sliders
    play_golf                a game: train in the memory that there is, with sliders
    speed_up                 how many times faster several ranks are than one
    predicted_and_measured   the model against the machine
    stages_on_ranks          which rank of a pipeline has which stages, and where messages cross
    step_timeline            when a rank computes, communicates and waits in a training step, one way above the other
    sweep                    what an experiment gives over a number that was varied, a dot for each run
    heat_map                 the same over two numbers that were varied, a cell for each pair
    curves                   how a quantity goes on as time passes, such as a loss
    histogram                how often each whole number came up, such as a staleness
    memory_per_rank          how many bytes each rank keeps at most
    memory_over_time         which bytes are alive while a training step goes on
    memory_and_room          what one process keeps, in named pieces, above the memory that it has
    memory_parts             what these bytes are: weights, gradients, …
    pipeline_timeline        when each rank of a pipeline does which action, and how many microbatches it keeps
    play_pipeline            the same, to play and to step through
    placements               which device, or rank, holds which piece of which array (`HeldPieces`)
    matrix_cuts              a linear layer cut by columns and by rows, number by number, and what must be sent
    cut_pair                 two such layers in a row, the first cut by columns, the second by rows
    compare_costs            what several ways cost, in several quantities: a bar for each
    decision_tree            questions, and what to do for each answer
    who_waits                which rank of a deadlock waits for which
    who_sends                which rank sends to which, and how many bytes
    before_and_after         which numbers each rank has before a collective, and after it
    meeting_places           where processes try to meet, as their environment says, and what was seen of each
    ranks_on_nodes           the ranks of one launch on their machines
    buckets_over_layers      which layers share a bucket, and when it travels while the backward pass goes on
    kept_shards              which shard of weights, gradients and optimizer states each rank keeps
    queue_lanes              when the CPU calls kernels or waits, and when the GPU computes
    unit_lanes               when a rank computes which unit, and what its network carries meanwhile
    mesh_cube                the ranks of a mesh, and the groups along its axes
    mesh_on_nodes            which groups of a mesh lie inside a node, and which across nodes
    gradient_timeline        which version of the parameters a gradient read, and which it was applied to
    gossip_graphs            who talks to whom in gossip, and how far a number has come
    token_routes             how many tokens each rank sends to the experts of each rank
    expert_lanes             when the ranks of a layer of experts compute, communicate and wait (`ExpertLayer`)
    image_answers            images, and what several models say that they show

matplotlib, ipywidgets and anywidget are loaded when a name is first used, not by `import distlib.draw`: the ranks of a
world import this package too (for `watch`), and have no use for them.
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
