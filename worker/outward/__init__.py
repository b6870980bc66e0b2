"""What a worker sends to other servers: webhooks, and copies of jobs for MLflow."""
