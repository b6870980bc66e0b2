"""Tokens: unguessable, and not readable from what is stored."""

from jobs.people.tokens import new_token, token_sha256


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(1000)}

    assert len(tokens) == 1000
    assert min(map(len, tokens)) > 40


def test_a_hash_does_not_contain_its_token() -> None:
    token = new_token()

    assert len(token_sha256(token)) == 64
    assert token_sha256(token) == token_sha256(token) != token_sha256(token + "x")
    assert token[5:] not in token_sha256(token)
