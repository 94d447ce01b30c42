"""Pictures of a run, drawn from what happened: the only place that imports matplotlib and widgets.

    timeline                 ranks × time (or × rounds), an arrow for each message
    play_timeline            the same, to play and to step through
    bytes_per_rank           what each rank sent and received
    play_chunks              which rank's contributions are in which chunk, round by round, to step through
    predict                  a number, a choice or an order, committed to before the run and compared after it
    race                     which all-reduce is the fastest by the model, over message sizes or ranks
    explore_race             the same with sliders
    play_cluster             a game: lay out a model on a cluster, with sliders
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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distlib.draw.charts.before_and_after import before_and_after
    from distlib.draw.charts.bucket_brackets import buckets_over_layers
    from distlib.draw.charts.byte_bars import bytes_per_rank
    from distlib.draw.charts.cost_bars import compare_costs
    from distlib.draw.charts.curves import curves
    from distlib.draw.charts.decision_trees import decision_tree
    from distlib.draw.charts.expert_lanes import ExpertLayer, expert_lanes
    from distlib.draw.charts.gossip_graphs import gossip_graphs
    from distlib.draw.charts.gradient_timelines import gradient_timeline
    from distlib.draw.charts.heat_maps import heat_map
    from distlib.draw.charts.histograms import histogram
    from distlib.draw.charts.image_answers import image_answers
    from distlib.draw.charts.kept_shards import kept_shards
    from distlib.draw.charts.matrix_cuts import cut_pair, matrix_cuts
    from distlib.draw.charts.meeting_places import meeting_places, ranks_on_nodes
    from distlib.draw.charts.memory_and_room import memory_and_room
    from distlib.draw.charts.memory_bars import memory_per_rank
    from distlib.draw.charts.memory_curves import memory_over_time
    from distlib.draw.charts.memory_parts import memory_parts
    from distlib.draw.charts.mesh_figures import mesh_cube, mesh_on_nodes
    from distlib.draw.charts.message_routes import who_sends
    from distlib.draw.charts.model_check import predicted_and_measured
    from distlib.draw.charts.pipelines import pipeline_timeline
    from distlib.draw.charts.placements import HeldPieces, placements
    from distlib.draw.charts.racing import race
    from distlib.draw.charts.speed_ups import speed_up
    from distlib.draw.charts.stage_chain import stages_on_ranks
    from distlib.draw.charts.step_panels import step_timeline
    from distlib.draw.charts.sweeps import sweep
    from distlib.draw.charts.timelines import timeline
    from distlib.draw.charts.token_routes import token_routes
    from distlib.draw.charts.unit_lanes import unit_lanes
    from distlib.draw.charts.wait_circles import who_waits
    from distlib.draw.chunks.chunk_history import ChunkHistory, watch_chunks
    from distlib.draw.picture import Picture
    from distlib.draw.players.cluster_board import play_cluster
    from distlib.draw.players.explorer import explore_race
    from distlib.draw.players.player import play_chunks, play_pipeline, play_timeline
    from distlib.draw.predictions.ask import predict

__all__ = [
    "ChunkHistory",
    "ExpertLayer",
    "HeldPieces",
    "Picture",
    "before_and_after",
    "buckets_over_layers",
    "bytes_per_rank",
    "compare_costs",
    "curves",
    "cut_pair",
    "decision_tree",
    "expert_lanes",
    "explore_race",
    "gossip_graphs",
    "gradient_timeline",
    "heat_map",
    "histogram",
    "image_answers",
    "kept_shards",
    "matrix_cuts",
    "meeting_places",
    "memory_and_room",
    "memory_over_time",
    "memory_parts",
    "memory_per_rank",
    "mesh_cube",
    "mesh_on_nodes",
    "pipeline_timeline",
    "placements",
    "play_chunks",
    "play_cluster",
    "play_pipeline",
    "play_timeline",
    "predict",
    "predicted_and_measured",
    "race",
    "ranks_on_nodes",
    "stages_on_ranks",
    "step_timeline",
    "sweep",
    "speed_up",
    "timeline",
    "token_routes",
    "unit_lanes",
    "watch_chunks",
    "who_sends",
    "who_waits",
]

_HOMES = {
    "ChunkHistory": "chunks.chunk_history",
    "ExpertLayer": "charts.expert_lanes",
    "HeldPieces": "charts.placements",
    "Picture": "picture",
    "before_and_after": "charts.before_and_after",
    "buckets_over_layers": "charts.bucket_brackets",
    "bytes_per_rank": "charts.byte_bars",
    "compare_costs": "charts.cost_bars",
    "curves": "charts.curves",
    "cut_pair": "charts.matrix_cuts",
    "decision_tree": "charts.decision_trees",
    "expert_lanes": "charts.expert_lanes",
    "explore_race": "players.explorer",
    "gossip_graphs": "charts.gossip_graphs",
    "gradient_timeline": "charts.gradient_timelines",
    "heat_map": "charts.heat_maps",
    "histogram": "charts.histograms",
    "image_answers": "charts.image_answers",
    "kept_shards": "charts.kept_shards",
    "matrix_cuts": "charts.matrix_cuts",
    "meeting_places": "charts.meeting_places",
    "memory_and_room": "charts.memory_and_room",
    "memory_over_time": "charts.memory_curves",
    "memory_parts": "charts.memory_parts",
    "memory_per_rank": "charts.memory_bars",
    "mesh_cube": "charts.mesh_figures",
    "mesh_on_nodes": "charts.mesh_figures",
    "pipeline_timeline": "charts.pipelines",
    "placements": "charts.placements",
    "play_chunks": "players.player",
    "play_cluster": "players.cluster_board",
    "play_pipeline": "players.player",
    "play_timeline": "players.player",
    "predict": "predictions.ask",
    "predicted_and_measured": "charts.model_check",
    "race": "charts.racing",
    "ranks_on_nodes": "charts.meeting_places",
    "stages_on_ranks": "charts.stage_chain",
    "step_timeline": "charts.step_panels",
    "sweep": "charts.sweeps",
    "speed_up": "charts.speed_ups",
    "timeline": "charts.timelines",
    "token_routes": "charts.token_routes",
    "unit_lanes": "charts.unit_lanes",
    "watch_chunks": "chunks.chunk_history",
    "who_sends": "charts.message_routes",
    "who_waits": "charts.wait_circles",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"distlib.draw.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
