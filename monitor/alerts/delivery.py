"""Sends messages to webhooks and by mail, each target in a thread of its own, and tries again.

Faults are reported by kind and status: a URL, a header or an answer may hold a secret.
"""

from __future__ import annotations

import http.client
import json
import smtplib
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from time import monotonic
from typing import Final

from highwater.monitor.alerts.message import AlertMessage
from highwater.monitor.alerts.targets import Mail, MailTls, Target, Webhook

TIMEOUT_S: Final = 10.0
# Alerts of a day in which nothing could be sent; older ones are dropped first, as news is in the newest.
MOST_WAITING: Final = 500
_REQUEST_TIMEOUT: Final = 408
_TOO_MANY_REQUESTS: Final = 429
_SMTP_PERMANENT: Final = 500


@dataclass(frozen=True, slots=True)
class Patience:
    """Waits double from `first_wait_s` up to `longest_wait_s`; a message is given up after `gives_up_after_s`."""

    timeout_s: float = TIMEOUT_S
    first_wait_s: float = 1.0
    longest_wait_s: float = 300.0
    gives_up_after_s: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class TargetState:
    """How delivery to a target goes."""

    name: str
    sent: int = 0
    lost: int = 0
    """Messages that were given up, refused for good, or dropped because too many waited."""
    waiting: int = 0
    error: str = ""
    """Why the newest attempt failed; empty if it did not."""


class DeliveryError(Exception):
    """The message names no secret. `is_final`: another attempt would fail likewise."""

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class Deliverer:
    """Takes messages from any thread and never blocks. `stop` ends the threads; what waits then is lost."""

    def __init__(self, targets: Iterable[Target], patience: Patience = Patience()) -> None:
        self._queues = [_Queue(target, patience) for target in targets]

    def submit(self, message: AlertMessage) -> None:
        for queue in self._queues:
            queue.submit(message)

    def states(self) -> tuple[TargetState, ...]:
        return tuple(queue.state() for queue in self._queues)

    def stop(self) -> None:
        """An attempt that is under way ends with its timeout at the latest."""
        for queue in self._queues:
            queue.stop()


class _Queue:
    def __init__(self, target: Target, patience: Patience) -> None:
        self._target = target
        self._patience = patience
        self._messages: deque[AlertMessage] = deque()
        self._changed = threading.Condition()
        self._is_stopped = threading.Event()
        self._sent = 0
        self._lost = 0
        self._error = ""
        self._thread = threading.Thread(target=self._run, name=f"alerts to {target.name}", daemon=True)
        self._thread.start()

    def submit(self, message: AlertMessage) -> None:
        with self._changed:
            if len(self._messages) >= MOST_WAITING:
                self._messages.popleft()
                self._lost += 1
            self._messages.append(message)
            self._changed.notify()

    def state(self) -> TargetState:
        with self._changed:
            return TargetState(self._target.name, self._sent, self._lost, len(self._messages), self._error)

    def stop(self) -> None:
        self._is_stopped.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(2 * self._patience.timeout_s)

    def _run(self) -> None:
        while (message := self._next()) is not None:
            self._deliver(message)

    def _next(self) -> AlertMessage | None:
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self._is_stopped.is_set())
            return None if self._is_stopped.is_set() else self._messages[0]

    def _deliver(self, message: AlertMessage) -> None:
        began_s = monotonic()
        wait_s = self._patience.first_wait_s
        while True:
            error = _attempt(self._target, message, self._patience.timeout_s)
            is_over = error is None or error.is_final or monotonic() - began_s >= self._patience.gives_up_after_s
            with self._changed:
                self._error = "" if error is None else str(error)
                if is_over:
                    self._sent += error is None
                    self._lost += error is not None
                    # It may have been dropped meanwhile, because too many waited.
                    if self._messages and self._messages[0] is message:
                        self._messages.popleft()
            if is_over or self._is_stopped.wait(wait_s):
                return
            wait_s = min(2 * wait_s, self._patience.longest_wait_s)


def _attempt(target: Target, message: AlertMessage, timeout_s: float) -> DeliveryError | None:
    try:
        if isinstance(target, Webhook):
            _post(target, message, timeout_s)
        else:
            _mail(target, message, timeout_s)
    except DeliveryError as error:
        return error
    except TimeoutError:
        return DeliveryError(f"no answer within {timeout_s:g} s")
    except ssl.SSLError as error:
        return DeliveryError(f"TLS failed: {error.reason or type(error).__name__}")
    except OSError as error:
        return DeliveryError(error.strerror or type(error).__name__)
    except (http.client.HTTPException, smtplib.SMTPException) as error:
        return DeliveryError(f"the answer is not understood ({type(error).__name__})")
    return None


def _post(webhook: Webhook, message: AlertMessage, timeout_s: float) -> None:
    """Post the message. Redirects are not followed: only the configuration names receivers."""
    parts = webhook.parts
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    # Chat programs show `text`.
    body = json.dumps({"text": f"{message.subject}\n{message.text}", "subject": message.subject, **message.document})
    headers = {"Content-Type": "application/json", "User-Agent": "highwater-monitor", **webhook.headers}
    try:
        connection.request("POST", path, body.encode(), headers)
        status = connection.getresponse().status
    finally:
        connection.close()
    if not http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES:
        may_pass = status >= http.HTTPStatus.INTERNAL_SERVER_ERROR or status in (_REQUEST_TIMEOUT, _TOO_MANY_REQUESTS)
        raise DeliveryError(f"the answer is HTTP status {status}", is_final=not may_pass)


def _mail(mail: Mail, message: AlertMessage, timeout_s: float) -> None:
    letter = EmailMessage()
    letter["From"] = mail.sender
    letter["To"] = ", ".join(mail.recipients)
    letter["Subject"] = message.subject
    letter["Date"] = formatdate()
    letter["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2])
    # Receivers answer neither with a note of absence nor with a receipt (RFC 3834).
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(message.text)
    context = ssl.create_default_context()
    try:
        if mail.tls is MailTls.TLS:
            server: smtplib.SMTP = smtplib.SMTP_SSL(mail.host, mail.port, timeout=timeout_s, context=context)
        else:
            server = smtplib.SMTP(mail.host, mail.port, timeout=timeout_s)
        with server:
            if mail.tls is MailTls.STARTTLS:
                server.starttls(context=context)
            if mail.user:
                server.login(mail.user, mail.password)
            refused = server.send_message(letter)
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise DeliveryError(
            f"all recipients are refused (SMTP {_list(codes)})", is_final=min(codes) >= _SMTP_PERMANENT
        ) from None
    except smtplib.SMTPResponseException as error:
        is_final = error.smtp_code >= _SMTP_PERMANENT
        raise DeliveryError(f"the server refuses with SMTP status {error.smtp_code}", is_final=is_final) from None
    except smtplib.SMTPNotSupportedError:
        raise DeliveryError(f"the server does not offer {mail.tls.value} or a login", is_final=True) from None
    if refused:
        raise DeliveryError(f"{len(refused)} of {len(mail.recipients)} recipients are refused", is_final=True)


def _list(codes: Iterable[int]) -> str:
    return ", ".join(map(str, codes))
