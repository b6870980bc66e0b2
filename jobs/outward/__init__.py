"""What leaves the service: webhooks, and copies of jobs for other tracking servers."""
