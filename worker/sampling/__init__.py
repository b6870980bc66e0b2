"""Once a second: what the GPUs, the ranks and the host do."""
