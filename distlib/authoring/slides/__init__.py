"""Slides of a lesson, from its pictures: `make slides ARGS=02`.

lesson_slides    which cell of a lesson gets which place, by a rule
slides_page      the page that reveal.js shows, page.html.j2
"""
