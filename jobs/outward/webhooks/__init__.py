"""Webhooks: messages about jobs and studies: ends, idle slots and alerts.

`store` creates, changes and deletes webhooks. `outbox` hands deliveries out to be sent. `messages` makes and signs what
is sent, and `formats` writes it as its receiver reads it: `slack` and `teams` from the `notices` for people. `retries`
decides when to try again.
"""
