"""TFRecord files: their records, the examples in them, and the sources made of them."""
