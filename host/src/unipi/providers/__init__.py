"""Providers: the byte shape of each wire API, its answers, and the way there and back."""

from __future__ import annotations

from .api import Decoder, ProviderApi, StreamDelta
from .apis import UnknownApiError, api_for, request_headers
from .connections import redacted
from .cost import cost_of
from .errors import ErrorKind, ProviderError
from .models import MODELS, ModelError, find_model
from .models_file import ModelsFileError, load_models
from .secrets import Secret, SecretError, find_secret
from .sse import SseParser
from .transport import Transport, send

__all__ = [
    # wire APIs
    "Decoder",
    "ProviderApi",
    "UnknownApiError",
    "api_for",
    # requests and answers
    "ErrorKind",
    "ProviderError",
    "SseParser",
    "StreamDelta",
    "Transport",
    "redacted",
    "request_headers",
    "send",
    # models and money
    "MODELS",
    "ModelError",
    "ModelsFileError",
    "cost_of",
    "find_model",
    "load_models",
    # keys
    "Secret",
    "SecretError",
    "find_secret",
]
