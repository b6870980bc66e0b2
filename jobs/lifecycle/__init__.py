"""The life of a job, from its submission to its removal: jobs, attempts, leases and the history of both."""
