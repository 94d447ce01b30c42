"""What an instructor says about a class: who works together, who has more time, who is called what for a second marker.

class_register   the file classroom/class.json
known_students   who is in the class; near names of a student that is not
roster           by what a student is found; table_file, how students.csv and other tables are read
aliases          how students are called in uploads, where that is not their name
merge_students   two names of one student made one; merge_plan, what of it is not done yet
due_dates        when an exercise is due, for whom later
late_rule        what being late costs, as data
term_dates       what students know of both
teams            one notebook for all who have worked on it
pseudonym_list   names that say nothing, and the folder for a second marker
"""
