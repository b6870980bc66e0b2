"""Images: their files, headers, pixels, and the sources made of them."""
