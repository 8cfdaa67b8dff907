"""Asks a provider over HTTP, bounded in time and size, without redirects."""

from __future__ import annotations

import http.client
import ssl
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from highwater.common.bounded_http import LARGEST_BYTES, Answer, Question, TooLargeError, exchange
from highwater.monitor.oidc.refusal import Refusal, provider_fault

TIMEOUT_S: Final = 10.0


def ask(question: Question, tls: ssl.SSLContext | None, timeout_s: float = TIMEOUT_S) -> Answer | Refusal:
    """Neither the sentence nor the log has what was sent or what came back: both may hold secrets."""
    host = urlsplit(question.address).netloc
    try:
        answer = exchange(question, tls, timeout_s, "highwater-monitor")
    except TimeoutError:
        return provider_fault(f"The provider at {host} does not answer within {timeout_s:g} s.")
    except ssl.SSLCertVerificationError as error:
        return provider_fault(f"The certificate of {host} is not trusted: {error.verify_message}. See web.oidc.ca.")
    except ssl.SSLError as error:
        return provider_fault(f"TLS with {host} fails: {error.reason or 'closed'}.")
    except OSError as error:
        return provider_fault(f"The provider at {host} cannot be reached: {error.strerror or type(error).__name__}.")
    except http.client.HTTPException as error:
        return provider_fault(f"What {host} answers is not understood ({type(error).__name__}).")
    except TooLargeError:
        return provider_fault(f"What {host} answers is larger than {LARGEST_BYTES >> 20} MiB.")
    if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST:
        return provider_fault(f"{host} answers with a redirect, which is not followed.")
    return answer
