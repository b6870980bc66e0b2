"""Datasets that people registered or sent: unpacked and looked at in contained processes."""
