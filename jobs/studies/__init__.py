"""Studies: a grid of jobs over a base spec, and the report on how it scaled.

`grid` makes the cells, `store` the rows, `report.report_on` the report, `formats` its other forms.
"""
