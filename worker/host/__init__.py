"""This host: its agent, its GPUs and samples, and the ssh between it and the others."""
