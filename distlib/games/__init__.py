"""The games of the course. A play is data, the choices that a student made; its score is what a replay of them gives.

    a lesson ──choices──► my_games.json ──hand in──► the instructor ──replay──► the board
                          the best of each level     choices, no scores         scores, pictures

A replay takes virtual time only, so the same choices always get the same score, and nobody can hand in a score.

course_game    what a game is: its levels, how choices are written, how they are played again
game_list      all games: each is a file here whose name ends with `_game.py`
my_games       a student's best plays, in a file of their own
keep_here      keeping a play in that file from a notebook
in_lessons     the functions of the games as lessons call them: what is played is kept in that file
"""

from distlib.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
