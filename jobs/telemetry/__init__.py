"""What ranks and hosts measure: written by ingest, read back as series, thinned when it is old."""
