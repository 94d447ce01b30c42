"""`distlib class report`: a whole course, for its instructor.

graded_course   what was graded in all exercises, from gradebook and records; nothing is run
wrong_ideas     what students take for true, by function, with the number who do
course_page     a page for the class, a page for each student, tables for a spreadsheet
answer_pairs    answers that resemble each other, next to each other, for a person to judge
"""
