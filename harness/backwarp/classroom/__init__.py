"""`backwarp class DIR`: what many people handed in, graded fairly, safely and in parallel.

`find` says whose file is for which puzzle, `rules` what it is worth, `tasks` grades one text in processes of its own,
`results` keeps what is known, `engine` runs what is missing, `gradebook` makes tables of it, and `pages` pages.
"""
