"""Registered and uploaded datasets: contained processes unpack and inspect them."""
