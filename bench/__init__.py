"""Side-by-side measurements: what Hora costs and gains, as ratios within one run. `make bench` runs all of them."""
