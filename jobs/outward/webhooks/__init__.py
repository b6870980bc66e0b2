"""Webhooks: who is told of the ends of jobs and studies, at which addresses, and how sending goes.

`store` has what people ask for; `outbox` writes deliveries with the ends that they tell of, and gives them out to be
sent; `addresses` says where may be sent to; `messages` what is said and how it is signed; `retries` when again.
"""
