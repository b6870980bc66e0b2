"""Studies: a grid of jobs over a base spec, and the report on how it scaled.

`grid` makes the cells, `store` the rows, and `orders` is what people ask of them. `report.report_on` makes the report
of `figures` and `findings`; `formats` and `plots` are its other forms.
"""
