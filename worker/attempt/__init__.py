"""One attempt on this host, from its launch file to the release of its slots."""
