"""Conclusions from the measurements: the analysis of a job, advice and quotes, and the reports of studies."""
