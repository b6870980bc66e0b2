"""Webhooks: messages about the ends of jobs and studies.

`store` creates, changes and deletes webhooks. `outbox` hands deliveries out to be sent. `messages` makes and signs what
is sent. `retries` decides when to try again.
"""
