"""From a request with a spec or a study to stored jobs. `submissions` is called by the routes."""
