"""Mail to addresses that users chose, through the operator's SMTP server. Used by the notifier for `mailto:` webhooks.

The time of a whole exchange is limited, as for other webhooks. No text of the server is passed on: it may name people
and machines.
"""

import smtplib
import socket
import ssl
import time
from contextlib import suppress
from email.message import EmailMessage
from typing import Any

from jobs.outward.webhooks.mail import mail_of
from jobs.outward.webhooks.retries import Answer
from jobs.runtime.mail_addresses import MailRules, SmtpServer, recipient_of
from jobs.runtime.outbound_addresses import ForbiddenAddress

_LATER_S = "60"  # a server that says "later" (RFC 5321: 4yz, also greylisting) does not mean a second


class Mailer:
    """Sends mail, one connection each. Any number of threads may use it."""

    def __init__(self, rules: MailRules, *, limit_s: float = 30.0, trust: ssl.SSLContext | None = None) -> None:
        self._rules = rules
        self._limit_s = limit_s
        self._trust = trust or ssl.create_default_context()

    def send(self, url: str, payload: dict[str, Any]) -> Answer:
        """Send a stored message to a `mailto:` address, and return the result. Raises nothing."""
        server = self._rules.server
        if server is None:  # another worker may be set up for it
            return Answer(None, "this worker sends no mail: HORA_SMTP_URL is not set for it")
        try:
            recipient = recipient_of(url, self._rules)
            self._exchange(server, mail_of(payload, sender=server.sender, recipient=recipient), recipient)
        except ForbiddenAddress as error:
            return Answer(None, str(error), hopeless=True)
        except smtplib.SMTPRecipientsRefused as error:
            ((code, _),) = error.recipients.values()
            return _refused(code, "the mail server refused the address")
        except smtplib.SMTPDataError as error:
            return _refused(error.smtp_code, "the mail server refused the mail")
        except (smtplib.SMTPException, OSError) as error:
            return _not_sent(error, self._limit_s)
        return Answer(250)

    def _exchange(self, server: SmtpServer, mail: EmailMessage, recipient: str) -> None:
        smtp = _connection(server, time.monotonic() + self._limit_s, self._trust)
        try:
            if server.security == "starttls":
                smtp.starttls(context=self._trust)
            if server.user is not None and server.password is not None:
                smtp.login(server.user, server.password)
            smtp.send_message(mail, server.sender, [recipient])
        finally:
            # What was taken was taken, also if the server does not say good-bye.
            with suppress(smtplib.SMTPException, OSError):
                smtp.quit()
            smtp.close()


class _Bounded(smtplib.SMTP):
    """A connection on which all replies together come before a deadline."""

    def __init__(self, *args: Any, deadline: float, **named: Any) -> None:
        self._deadline = deadline
        named["timeout"] = max(deadline - time.monotonic(), 0.001)
        super().__init__(*args, **named)

    def getreply(self) -> tuple[int, bytes]:
        """The next reply. Raises `TimeoutError`."""
        if self.sock is not None:
            self.sock.settimeout(max(self._deadline - time.monotonic(), 0.001))
        try:
            return super().getreply()
        except smtplib.SMTPServerDisconnected:
            if time.monotonic() >= self._deadline:
                raise TimeoutError from None
            raise


class _BoundedTls(_Bounded, smtplib.SMTP_SSL):
    """The same in TLS from the beginning."""


def _connection(server: SmtpServer, deadline: float, trust: ssl.SSLContext) -> smtplib.SMTP:
    own_name = server.sender.rpartition("@")[2]  # without one, smtplib asks the resolver for that of this machine
    if server.security == "tls":
        return _BoundedTls(server.host, server.port, own_name, deadline=deadline, context=trust)
    return _Bounded(server.host, server.port, own_name, deadline=deadline)


def _refused(code: int, what: str) -> Answer:
    """A refusal of this mail: of a 5yz another try would get the same, of a 4yz it may not."""
    if code >= 500:
        return Answer(code, f"{what} with {code}", hopeless=True)
    return Answer(code, f"{what} with {code}", again=True, retry_after=_LATER_S)


def _not_sent(error: smtplib.SMTPException | OSError, limit_s: float) -> Answer:
    """Why no mail could be tried, in words of our own. The operator can put it right, so there will be more tries."""
    code = error.smtp_code if isinstance(error, smtplib.SMTPResponseException) else None
    match error:
        case smtplib.SMTPAuthenticationError():
            text = f"the mail server refused the user and password of HORA_SMTP_URL with {code}"
        case smtplib.SMTPSenderRefused():
            text = f"the mail server refused the sender of HORA_SMTP_URL with {code}"
        case smtplib.SMTPNotSupportedError():
            text = "the mail server does not offer what HORA_SMTP_URL asks for: STARTTLS, or a password"
        case smtplib.SMTPServerDisconnected():
            text = "the mail server closed the connection"
        case smtplib.SMTPResponseException():
            text = f"the mail server answered with {code}"
        case ssl.SSLCertVerificationError():
            text = f"the certificate of the mail server is not trusted: {error.verify_message}"
        case ssl.SSLError():
            text = "a TLS connection to the mail server is not possible"
        case TimeoutError():
            text = f"the mail server did not take the mail within {limit_s:g} s"
        case ConnectionRefusedError():
            text = "the mail server refused the connection"
        case socket.gaierror():
            text = "the name of the mail server cannot be resolved"
        case _:
            text = "the connection to the mail server broke"
    return Answer(code, text, again=True, retry_after=None if code is None else _LATER_S)
