"""The figures of `GET /metrics`, for Prometheus."""
