"""The board of a class: who has played the games of the course best, under names that students choose themselves.

    classroom/submitted/NAME/…  ──choices──► replays ──scores──► tables ──► classroom/board/board.html
    classroom/graded/19_…/…     ──seconds that the judge has taken──┘

class_plays         what students have handed in
pseudonym_owners    whose a pseudonym is
graded_trainings    what trainings have reached, as the judge has measured it
standings           scores to places; pure
board_page          the page
class_board         all of it
own_board           what a student sees alone: pars, the authors' records, own plays
"""
