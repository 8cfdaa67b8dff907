"""Fetches a small document over HTTP or from a file; a failure is a sentence that lacks its subject."""

from __future__ import annotations

import http.client
import ssl
from pathlib import Path
from urllib.parse import unquote, urlsplit

from highwater.common.bounded_http import LARGEST_BYTES, Answer, Question, TooLargeError, exchange


class FetchError(Exception):
    """Why there is no document, as a sentence without its subject, the address."""


def read(url: str) -> bytes:
    """The file of a `file:` URL. Raises FetchError."""
    try:
        with Path(unquote(urlsplit(url).path)).open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise FetchError(f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise FetchError(f"has more than {LARGEST_BYTES >> 20} MiB")
    return data


def ask(question: Question, tls: ssl.SSLContext | None, timeout_s: float, software: str) -> Answer:
    """Whatever its status is. Raises FetchError."""
    try:
        return exchange(question, tls, timeout_s, software)
    except TimeoutError:
        raise FetchError(f"does not answer within {timeout_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise FetchError(f"has a certificate that is not trusted: {error.verify_message}") from None
    except OSError as error:
        raise FetchError(f"cannot be reached: {error.strerror or type(error).__name__}") from None
    except http.client.HTTPException as error:
        raise FetchError(f"answers what is not understood ({type(error).__name__})") from None
    except TooLargeError:
        raise FetchError(f"answers more than {LARGEST_BYTES >> 20} MiB") from None


def shown(url: str) -> str:
    """The URL without its query and user, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
