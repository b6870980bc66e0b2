"""The API's requests and answers as pydantic models. Made by `api`, read by `hora.client`. Pure."""
