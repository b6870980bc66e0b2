"""Data that the service sends out: webhooks, and copies of jobs for other tracking servers."""
