from . import server_race as server_race
from .in_lessons import (
    cluster_game as cluster_game,
    fill as fill,
    lay_out as lay_out,
    memory_golf as memory_golf,
    play_cluster as play_cluster,
    play_golf as play_golf,
    puzzle as puzzle,
    race as race,
    swing as swing,
)
from .my_games import BestPlay as BestPlay, PlaysUnreadable as PlaysUnreadable, best_plays as best_plays
