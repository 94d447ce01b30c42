"""The course as a site: pages to read without a kernel, made of stored runs of the lessons.

    course/NAME.ipynb     -> .runs/NAME.ipynb      by `make site ARGS=run`: with the outputs of a real run
    .runs, exercises/, …  -> build/pages/          text that Sphinx reads: pages, glossary, syllabus, reference
    build/pages/          -> build/site/           by `make site`: the site

The runs take half an hour, the site half a minute. So the runs are kept: in a folder that git ignores, since no two
runs write the same bytes, and outside build/, which people delete lightly.
"""
