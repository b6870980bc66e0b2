"""Texts of every syntax that the api reads: plausible ones, damaged ones, and those of earlier answers.

`TEXTS` has a generator for each `format` of the OpenAPI document that is not JSON Schema's own. A test requires one for
a new format. Used by `tests.fuzz.requests`, and by Schemathesis through `tests.fuzz.hooks`.
"""

import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable
from random import Random

Text = Callable[[Random], str]

_MOST_SEEN = 500
_seen: dict[str, list[str]] = defaultdict(list)  # texts of earlier answers, by format


def remember(format_name: str, text: str) -> None:
    """Keep a text of an answer, to send it back."""
    texts = _seen[format_name]
    if text not in texts:
        texts.append(text)
        del texts[:-_MOST_SEEN]


def one_of(*texts: Text | str) -> Text:
    """One of these."""

    def choose(random: Random) -> str:
        text = random.choice(texts)
        return text if isinstance(text, str) else text(random)

    return choose


def seen(format_name: str, *otherwise: str) -> Text:
    """A text of an earlier answer; before there is any, one of the others."""
    return lambda random: random.choice(_seen[format_name] or otherwise)


def filled(pattern: str, *parts: Text) -> Text:
    """The pattern with the parts in its braces."""
    return lambda random: pattern.format(*(part(random) for part in parts))


def several(part: Text, *, between: str, most: int = 4) -> Text:
    """Some of a part, perhaps none."""
    return lambda random: between.join(part(random) for _ in range(random.randint(0, most)))


ODD = ["\x00", "\x7f", "\n", "٣", "é", "İ", "😀", " ", "=", ",", ":", "/", "-", "%", "..", '"', "'", "{", "9" * 30]


def damaged(text: Text) -> Text:
    """The text; in most cases as it is, else cut, doubled, in other letters, or with something odd in it."""

    def damage(random: Random) -> str:
        whole, place = text(random), random.randint(0, 80)
        return random.choice([
            whole, whole, whole, whole[:place], whole[place:], whole + whole, whole.swapcase(),
            whole[:place] + random.choice(ODD) + whole[place:],
            whole[:place] + random.choice(ODD) + whole[place + 1 :],
        ])  # fmt: skip

    return damage


def in_header(text: Text) -> Text:
    """The text without the letters that a header cannot hold."""

    def kept(random: Random) -> str:
        return "".join(letter for letter in text(random) if " " <= letter <= "~" or "\xa0" <= letter <= "ÿ").strip()

    return kept


NUMBERS = [
    *map(str, (-1, 0, 1, 2, 3, 4, 7, 8, 10, 19, 20, 32, 100, 1000, 1001, 4096, 4097, 9999, 10**7, 10**7 + 1, 2**31,
               2**31 + 1, 2**63, 2**64, 10**20)),
    "", "x", "nan", "inf", "1e5", "1e400", "0x20", "+5", "٣٠", "²", "5.0", "00050", "9" * 400,
]  # fmt: skip
number = one_of(*NUMBERS)

_option = one_of(
    filled("{}={}", one_of("samples", "samples", "classes", "classes", "height", "foo", "", "SAMPLES"), number),
    filled("shape={}x{}x{}", number, number, number),
    one_of("", "samples", "=", "shape=32x32", "shape=8x8x1x1", "samples=100", "classes=2", "shape=9x9x1"),
)
_synthetic = filled("synthetic{}{}", one_of(":", ":", ":", ":", "", "::", "@"), several(_option, between=","))
_path = several(
    one_of("chips", "..", ".", "", "a b", "ü", "x" * 300, "data", "@", "~", "%2e%2e", "*.parquet", "/"), between="/"
)
_scheme = one_of("s3", "file", "http", "HTTP", "", "job", "zip::s3", "gs", "x" * 40)
_host = one_of(
    "bucket", "", "user:pw@host", "[::1]", "[", "host:99999", "ho st", "127.0.0.1", "é.com", "example.com", "localhost",
    "0x7f.1", "2130706433", "a..b", "x" * 300, "example.com:", "169.254.169.254", "[::ffff:127.0.0.1]", "١٢٧.0.0.1",
)  # fmt: skip
_place = one_of(_path, filled("{}://{}/{}", _scheme, _host, _path))
_versioned = filled("{}@{}", one_of("chips", "digits", "", "a/b", "Ü"), number)
_source = one_of(_synthetic, _synthetic, _versioned, one_of("digits", "synthetic", "chips", "none"), _place)
_job_id = one_of(seen("job-id", "3k9v"), seen("job-id", "3k9v"), "", "x", "A", "é", "0" * 33)
_weights = one_of(
    "none",
    "imagenet",
    filled("job:{}", _job_id),
    filled("{}{}", _place, one_of(".weights.h5", ".h5", ".keras")),
    _place,
)
_web_address = filled(
    "{}://{}{}",
    one_of("https", "https", "http", "HTTPS", "ftp", "file", "", "javascript"),
    _host,
    one_of("", "/", "/hook", "/a b", "/\\", "?x#y", "/" + "x" * 1900, "/%00"),
)


def _signed_with_another_key(text: Text) -> Text:
    """A cursor of an earlier answer, whose content another service has signed."""

    def sign(random: Random) -> str:
        cursor = text(random)
        payload = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:]
        return _as_text(hmac.digest(b"another key", payload, hashlib.sha256)[:16] + payload)

    return sign


def _as_text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _noise(random: Random) -> str:
    return _as_text(random.randbytes(random.randint(0, 60)))


def _opaque(format_name: str) -> Text:
    real = seen(format_name, "AAAAAAAAAAAAAAAAAAAAAAAA")
    return one_of(real, damaged(real), _signed_with_another_key(real), _noise)


_entity_tag = seen("entity-tags", 'W/"1-0123456789abcdef"')
_end = one_of("", "0", "1", "10", "99999", "9" * 18, "9" * 400, "x", "-1")
_byte_range = filled("{}={}-{}", one_of("bytes", "bytes", "bytes", "rows", ""), _end, _end)
_word = one_of("team", "a/b", "", "ü", "x" * 70, "vision", ":", "a:b")


def _some_of(*words: str) -> Text:
    return damaged(several(one_of(*words, "", "x", " "), between=","))


media_type = one_of(
    "*/*", "application/json", "text/html", "text/plain;version=0.0.4", "application/openmetrics-text; version=1.0.0",
    "application/openmetrics-text; version=", "application/openmetrics-text;q=x", "text/plain; escaping=allow-utf-8",
    ";", ",", "text/html;charset=\xff", "application/json; charset=utf-16", "a" * 3000, "text/event-stream",
)  # fmt: skip

_field = one_of(
    filled("metrics.{}", one_of("val_iou", "a.b/c@d:e-f", "", "x" * 64, "x'y", "ü")), "spec.dataset.source",
    "label.team", "spec.params.a.b.c", "spec.params." + "a." * 6 + "b", "gpus", "started", "duration", "mean.loss",
    "starred",
    "notes", "status", '"label.a = b"', '"label.a,b"', "spec", "x" * 301,
)  # fmt: skip
_comparison = filled(
    "{}{}{}", _field, one_of("=", "!=", "<", " <= ", ">", ">=", "~", " !~ ", "", "=="),
    one_of("1", "1e999", "-1e-999", "true", "[1, 2]", '{"a": [1]}', "^a.*(b|c)$", "((", "(a{255}){255}", '"x"',
           '"\\ud800"', "2030-01-31", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", "failed",
           "9" * 99, "x" * 1999),
)  # fmt: skip

TEXTS: dict[str, Text] = {
    "artifact-path": damaged(one_of("model.weights.h5", "checkpoints/1", "logs/rank0.txt", "a/../b", "//", "x" * 5000)),
    "byte-range": in_header(damaged(one_of(_byte_range, several(_byte_range, between=",")))),
    "code-path": damaged(one_of("train.py", "lib/data.py", "a/../b", "//", "x" * 5000)),
    "checkpoint-path": damaged(one_of("step-0000000010.npz", "optimizer.pt", ".metadata", "../x", "//", "x" * 5000)),
    "cursor": _opaque("cursor"),
    "digest": damaged(seen("digest", "0" * 64)),
    "date": damaged(one_of("2025-05-01", "2024-02-29", "2025-02-29", "0001-01-01", "9999-12-31", "2025-13-01", "1")),
    "entity-tags": in_header(
        damaged(one_of("*", several(_entity_tag, between=", "), _entity_tag, 'W/"' + "x" * 9000 + '"'))
    ),
    "event-id": in_header(_opaque("event-id")),
    "file-name": damaged(one_of("chips.zip", "chips.tar.gz", "chips.parquet", "x.npz", ".", "..", "a.b.c")),
    "idempotency-key": in_header(damaged(one_of("k", "key-1", "x" * 255, "a b", "~"))),
    "alert-condition": damaged(one_of("val_loss > 3", "loss = nan", "val_accuracy<=.5", "a b > 1", "loss > 1e999")),
    "log-pattern": damaged(one_of("CUDA error|NaN", "a*b", r"\|\*\\", "|", "*", ".*", "\\d+")),
    "job-id": damaged(_job_id),
    "kinds": _some_of("event", "state", "progress", "metrics", "logs", "end"),
    "argument": damaged(one_of("python", "train.py", "--lr={params.lr}", "{batch_size}", "{{x}}", "{no}", "{", "")),
    "label": damaged(filled("{}:{}", _word, _word)),
    "media-types": in_header(damaged(media_type)),
    "field": damaged(_field),
    "field-order": damaged(several(filled("{}{}", one_of("", "-", " - "), _field), between=",")),
    "model": damaged(one_of("lenet5", "mlp", "resnet50", "os:system", "a.b.c:d", ".", "a..b:c", "__builtins__:eval")),
    "requirement": damaged(
        one_of("einops", "einops>=0.8", "x[a,b]==1.*; python_version<'4'", "-r x", "a @ file:///etc")
    ),
    "source": damaged(_source),
    "statuses": _some_of("queued", "running", "succeeded", "failed", "cancelled"),
    "checkpoint-of-job": damaged(one_of(filled("job:{}", _job_id), filled("job:{}@{}", _job_id, number))),
    "weights": damaged(_weights),
    "upload-id": damaged(one_of(seen("upload-id", "x"), "x")),
    "where": damaged(several(_comparison, between=" or ")),
    "web-address": damaged(_web_address),
}

_peer = one_of("127.0.0.1", "::1", "10.0.0.1, 8.8.8.8", "unknown", "_x", "9" * 500, "for=1;proto=https", "[::1]:99999")
_own_host = one_of("localhost", "example.com", "[::1]:8080", "[", "]", "x" * 300, "a:99999", "user@host", "\xff", "a/b")
# Headers that clients and proxies send, whether or not the document names them for a route.
HEADERS: dict[str, Text] = {
    "Accept": media_type,
    "Accept-Encoding": one_of("gzip", "identity;q=0", "gzip;q=x", "*", "br, zstd", ";;;"),
    "Content-Encoding": one_of("gzip", "identity", "x", "br, gzip"),
    "Cookie": damaged(one_of("hora_session=x", "a=b; a=c", "=", ";;", 'x="\\', "hora_session=" + "x" * 4000)),
    "Forwarded": _peer,
    "Host": _own_host,
    "Idempotency-Key": TEXTS["idempotency-key"],
    "If-Match": TEXTS["entity-tags"],
    "If-Modified-Since": one_of("Mon, 01 Jan 2030 00:00:00 GMT", "x", "9" * 30, "Mon, 99 Jan 99999"),
    "If-None-Match": TEXTS["entity-tags"],
    "If-Range": TEXTS["entity-tags"],
    "Last-Event-ID": TEXTS["event-id"],
    "Origin": one_of("null", "http://localhost", "http://[", "https://" + "x" * 300, "\xff"),
    "Range": TEXTS["byte-range"],
    "Sec-Fetch-Mode": one_of("navigate", "cors", "x", ""),
    "Sec-Fetch-Site": one_of("same-origin", "cross-site", "none", "x", ""),
    "X-Forwarded-For": _peer,
    "X-Forwarded-Host": _own_host,
    "X-Forwarded-Proto": one_of("https", "http", "x", "", "https, http", "9" * 99),
    "X-HTTP-Method-Override": one_of("DELETE", "x"),
    "X-Request-ID": damaged(one_of("abc", "x" * 64, "x" * 65, "a b")),
}
# With these the api does not read the rest of a request, so they are rare.
DECISIVE: dict[str, Text] = {
    "Authorization": damaged(one_of("Bearer", "Bearer x", "bearer ", "Basic eDp4", "Bearer " + "x" * 4000)),
    "Content-Type": one_of(media_type, "application/merge-patch+json", "multipart/form-data"),
}


def some_headers(random: Random) -> dict[str, str]:
    """No headers, one or two; rarely a decisive one."""
    names = random.sample(sorted(HEADERS), random.choice([0, 0, 0, 1, 1, 2]))
    if random.random() < 0.03:
        names.append(random.choice(sorted(DECISIVE)))
    return {name: in_header((HEADERS | DECISIVE)[name])(random) for name in names}
