"""What the API answers with, a pydantic model for each thing: made by `api`, read by `hora.client`. Pure."""
