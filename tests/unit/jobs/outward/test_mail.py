"""Messages as mail: their headers and texts, and that nothing typed becomes a header or markup."""

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP

from jobs.outward.webhooks.mail import mail_of
from tests.unit.jobs.outward.test_webhook_formats import PAGE, message

HOSTILE = "Größe\r\nBcc: all@example.org\r\n\r\n<script>alert(1)</script>\u2028&\udc80x"


def as_sent(**fields: str) -> EmailMessage:
    """The mail of a job as a receiver reads it."""
    mail = mail_of(message(**fields), sender="hora@example.org", recipient="ann@example.org")
    read = message_from_bytes(mail.as_bytes(), policy=SMTP)
    assert isinstance(read, EmailMessage)
    return read


def content_of(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    content: str = part.get_content()
    return content.replace("\r\n", "\n")


def test_a_mail_says_what_one_wants_to_know_as_text_and_as_html() -> None:
    mail = as_sent()
    headers = ("From", "To", "Subject", "Message-ID", "Auto-Submitted", "Hora-Event", "Hora-Delivery")
    assert [str(mail[name]) for name in headers] == [
        "Hora <hora@example.org>", "ann@example.org", "chips-8gpu failed", "<5d8w.4711@example.org>", "auto-generated",
        "job.ended", "4711",
    ]  # fmt: skip
    assert mail.get_content_type() == "multipart/alternative"
    text, html = content_of(mail, "plain"), content_of(mail, "html")
    assert text.startswith(
        "chips-8gpu failed\n\nwhy: out of memory\nerror: rank 3: no memory\nbest val_accuracy: 0.9313"
    )
    assert f"\n{PAGE}\n" in text
    assert f'<a href="{PAGE}">' in html
    assert "<th align=left>GPU-hours</th><td>1.80</td>" in html


def test_a_mail_is_the_same_at_every_try() -> None:
    mails = [mail_of(message(), sender="hora@example.org", recipient="ann@example.org") for _ in range(2)]
    for mail in mails:
        mail.set_boundary("same")
    assert mails[0].as_bytes() == mails[1].as_bytes()


def test_what_people_typed_is_no_header_and_no_markup() -> None:
    mail = as_sent(name=HOSTILE, error=HOSTILE)
    assert mail["Bcc"] is None
    assert mail["Subject"] == "Größe Bcc: all@example.org <script>alert(1)</script> & x failed"
    assert "<script>" not in content_of(mail, "html")
    assert "&lt;script&gt;" in content_of(mail, "html")
    assert "\nBcc" not in content_of(mail, "plain")
    assert mail.as_bytes().isascii()
