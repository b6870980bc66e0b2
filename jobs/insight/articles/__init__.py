"""Articles: pages of prose with charts and tables of jobs in them, that people write.

`blocks` takes the text apart. `store` has the rows. `figures` reads what the charts and tables of an article show now,
and `document` is what the process that makes HTML and PDF gets of it.
"""
