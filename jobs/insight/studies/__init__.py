"""Studies: a grid of jobs over a base spec, and the report on how it scaled.

`grid` makes the cells and `store` the rows. `control` cancels, pauses and resumes them. `report.report_on` makes the
report from `figures`, `outliers`, `loss_curves`, `cpu_speedups` and `findings`; `formats` and `plots` are its other
forms. `mean_curves` has the learning curves.
"""
