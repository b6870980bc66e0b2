"""Side-by-side measurements: the costs and gains of Hora, as ratios within one run. `make bench` runs all of them."""
