from .charts.before_and_after import before_and_after as before_and_after
from .charts.bucket_brackets import buckets_over_layers as buckets_over_layers
from .charts.byte_bars import bytes_per_rank as bytes_per_rank
from .charts.cost_bars import compare_costs as compare_costs
from .charts.curves import curves as curves
from .charts.decision_trees import decision_tree as decision_tree
from .charts.expert_lanes import ExpertLayer as ExpertLayer, expert_lanes as expert_lanes
from .charts.gossip_graphs import gossip_graphs as gossip_graphs
from .charts.gradient_timelines import gradient_timeline as gradient_timeline
from .charts.heat_maps import heat_map as heat_map
from .charts.histograms import histogram as histogram
from .charts.image_answers import image_answers as image_answers
from .charts.kept_shards import kept_shards as kept_shards
from .charts.matrix_cuts import cut_pair as cut_pair, matrix_cuts as matrix_cuts
from .charts.meeting_places import meeting_places as meeting_places, ranks_on_nodes as ranks_on_nodes
from .charts.memory_and_room import memory_and_room as memory_and_room
from .charts.memory_bars import memory_per_rank as memory_per_rank
from .charts.memory_curves import memory_over_time as memory_over_time
from .charts.memory_parts import memory_parts as memory_parts
from .charts.mesh_figures import mesh_cube as mesh_cube, mesh_on_nodes as mesh_on_nodes
from .charts.message_routes import who_sends as who_sends
from .charts.model_check import predicted_and_measured as predicted_and_measured
from .charts.pipelines import pipeline_timeline as pipeline_timeline
from .charts.placements import HeldPieces as HeldPieces, placements as placements
from .charts.queue_lanes import queue_lanes as queue_lanes
from .charts.racing import race as race
from .charts.speed_ups import speed_up as speed_up
from .charts.stage_chain import stages_on_ranks as stages_on_ranks
from .charts.step_panels import step_timeline as step_timeline
from .charts.sweeps import sweep as sweep
from .charts.timelines import timeline as timeline
from .charts.token_routes import token_routes as token_routes
from .charts.unit_lanes import unit_lanes as unit_lanes
from .charts.wait_circles import who_waits as who_waits
from .chunks.chunk_history import ChunkHistory as ChunkHistory, watch_chunks as watch_chunks
from .picture import Picture as Picture
from .players.cluster_board import play_cluster as play_cluster
from .players.explorer import explore_race as explore_race
from .players.golf_board import play_golf as play_golf
from .players.player import play_chunks as play_chunks, play_pipeline as play_pipeline, play_timeline as play_timeline
from .predictions.ask import predict as predict
from .style import format_seconds as format_seconds
