"""What Prometheus reads from `GET /metrics`."""
