"""Live streams: server-sent events of what jobs tell, to thousands of listeners at once.

    response    one listener: an ASGI response that tells what is new, from its own position on
    topics      what several listeners watch: those at the same position share one read, and the same bytes
    hub         one a process: it wakes the topics, by the database's hints and by looking
    listening   the connection on which the hints come
    reading     what is new of a job since a position      feed    the same, of all jobs
    positions   what a listener was told, as the id of an event

A listener pulls. It holds a position and nothing else; when its topic wakes, it asks the topic for what is new since
then. A slow one asks later and gets more at once; one that comes back with the id of the last event goes on in the
same way, in whichever process. Nothing is queued for anybody.
"""
