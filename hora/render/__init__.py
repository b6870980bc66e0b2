"""What the command line shows, as text and tables made from the API's JSON. Pure."""
