"""Live streams: server-sent events about jobs, for thousands of listeners at once.

    response    one listener: an ASGI response that sends what is new since the listener's position
    topics      what several listeners watch: those at the same position share one read and the same bytes
    hub         one a process: wakes the topics, by hints of the database and by looking at the jobs
    listening   the connection on which the hints come
    reading     what is new of a job since a position      feed    the same, of all jobs
    step        builds the bytes that a listener is sent
    positions   what a listener was sent, as the id of an event

A listener pulls. It holds a position and nothing else. When its topic wakes, it asks the topic for what is new since
then. A slow listener asks later and gets more at once. A listener that comes back with the id of its last event goes
on in the same way, in any process. Nothing is queued for listeners.
"""
