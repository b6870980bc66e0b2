"""The files of the api for browsers: the dashboard, the documentation and Swagger UI."""
