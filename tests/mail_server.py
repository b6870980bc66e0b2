"""A mail server on loopback: a real one in a thread. It keeps the mails, and a test sets its answers."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP as LINES
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

USER, PASSWORD = "ann", "p@ss/word"


@dataclass
class MailServer:
    """The mails so far, with their envelopes, and functions that give the answers."""

    port: int = 0
    mails: list[tuple[str, list[str], EmailMessage]] = field(default_factory=list)  # sender, recipients, mail
    logins: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)  # each recipient that was named
    to_recipient: Callable[[str], str] = lambda _: "250 OK"
    to_mail: Callable[[], str] = lambda: "250 OK"
    says_goodbye: bool = True

    async def handle_RCPT(self, server: Any, session: Any, envelope: Envelope, address: str, options: Any) -> str:  # noqa: N802
        """RCPT TO."""
        self.tried.append(address)
        answer = self.to_recipient(address)
        if answer.startswith("250"):
            envelope.rcpt_tos.append(address)
        return answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        """DATA."""
        answer = self.to_mail()
        if answer.startswith("250"):
            assert isinstance(envelope.content, bytes)
            mail = message_from_bytes(envelope.content, policy=LINES)
            assert isinstance(mail, EmailMessage)
            self.mails.append((str(envelope.mail_from), [*envelope.rcpt_tos], mail))
        return answer

    async def handle_QUIT(self, server: Any, session: Any, envelope: Envelope) -> str:  # noqa: N802
        """QUIT."""
        if not self.says_goodbye:
            await asyncio.Event().wait()
        return "221 Bye"

    def login(self, server: Any, session: Any, envelope: Any, mechanism: str, given: Any) -> AuthResult:
        """AUTH."""
        known = (USER.encode(), PASSWORD.encode())
        is_right = isinstance(given, LoginPassword) and (given.login, given.password) == known
        self.logins.append("right" if is_right else "wrong")
        return AuthResult(success=is_right, handled=False)


@contextmanager
def serving_mail(*, tls: ssl.SSLContext | None = None, from_the_beginning: bool = False) -> Iterator[MailServer]:
    """Listen on a free port of 127.0.0.1 until the end of the block. With `tls` it requires STARTTLS and a password."""
    mail_server, loop = MailServer(), asyncio.new_event_loop()
    needs_login = tls is not None and not from_the_beginning

    def connection() -> SMTP:
        needed = {"require_starttls": needs_login, "auth_required": needs_login}
        context = tls if needs_login else None
        login = mail_server.login
        return SMTP(mail_server, hostname="mail.test", tls_context=context, authenticator=login, loop=loop, **needed)

    at = loop.create_server(connection, "127.0.0.1", 0, ssl=tls if from_the_beginning else None)
    server = loop.run_until_complete(at)
    mail_server.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield mail_server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
