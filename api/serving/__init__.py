"""The server of the api: uvicorn, with limits for what arrives before a request has reached the app.

`api.serving.server` configures it; `python -m api` runs it. `protocol` reads requests of one connection, `connections`
holds all of them, and `refusals` are the answers that the app does not give.
"""
