from . import server_race as server_race
from .in_lessons import (
    cluster_game as cluster_game,
)
from .in_lessons import (
    fill as fill,
)
from .in_lessons import (
    lay_out as lay_out,
)
from .in_lessons import (
    memory_golf as memory_golf,
)
from .in_lessons import (
    play_cluster as play_cluster,
)
from .in_lessons import (
    play_golf as play_golf,
)
from .in_lessons import (
    puzzle as puzzle,
)
from .in_lessons import (
    race as race,
)
from .in_lessons import (
    swing as swing,
)
from .my_games import BestPlay as BestPlay
from .my_games import PlaysUnreadable as PlaysUnreadable
from .my_games import best_plays as best_plays
