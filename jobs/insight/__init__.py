"""What the measurements say: the analysis of a job, advice and quotes, and the reports of studies."""
