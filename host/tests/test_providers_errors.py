"""Error answers: what kind they are, whether a retry may help, how long to wait."""

import json

import pytest

from unipi.providers.errors import response_error, stream_error


def error(status, body=b"", headers=None, provider="sim"):
    return response_error(status, headers or {}, body, now_ms=1_000_000, provider=provider)


def anthropic(kind, message="words"):
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


def openai(code, message="words", kind="invalid_request_error"):
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (400, anthropic("invalid_request_error"), "invalid", False),
        (401, anthropic("authentication_error"), "auth", False),
        (401, openai("invalid_api_key"), "auth", False),
        (402, anthropic("billing_error"), "quota", False),
        (403, anthropic("permission_error"), "permission", False),
        (404, openai("model_not_found"), "not_found", False),
        (408, b"", "timeout", True),
        (409, anthropic("conflict_error"), "server", True),
        (413, anthropic("request_too_large"), "overflow", False),
        (422, b"", "invalid", False),
        (429, anthropic("rate_limit_error"), "rate_limit", True),
        (429, openai("rate_limit_exceeded"), "rate_limit", True),
        (429, openai("insufficient_quota"), "quota", False),
        (429, openai(None, "You exceeded your current quota, please check"), "quota", False),
        (500, anthropic("api_error"), "server", True),
        (502, b"<html>bad gateway</html>", "server", True),
        (503, openai(None, "The engine is currently overloaded"), "overloaded", True),
        (503, openai(None, "Slow Down"), "overloaded", True),
        (503, b"", "server", True),
        (504, anthropic("timeout_error"), "timeout", True),
        (529, anthropic("overloaded_error"), "overloaded", True),
        (307, b"", "invalid", False),
    ],
)
def test_a_status_and_a_code_make_a_kind(status, body, kind, retryable):
    made = error(status, body)
    assert (made.kind, made.retryable, made.status) == (kind, retryable, status)


@pytest.mark.parametrize(
    "body",
    [
        anthropic("invalid_request_error", "prompt is too long: 207791 tokens > 200000 maximum"),
        anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease",
        ),
        openai("context_length_exceeded", "too much"),
        openai(None, "This model's maximum context length is 8192 tokens. However, your messages"),
        openai(None, "This endpoint's maximum context length is 9 tokens. However, you requested"),
        openai(400, "the request exceeds the available context size, try increasing it"),
        openai(None, "Your input exceeds the context window of this model."),
        b"Input is too long for requested model.",
    ],
)
def test_a_prompt_that_does_not_fit_is_recognised_in_each_provider_s_words(body):
    made = error(400, body)
    assert (made.kind, made.retryable) == ("overflow", False)


def test_anthropic_s_spend_cap_has_no_retry_after_and_is_not_retried():
    body = anthropic("rate_limit_error")
    assert error(429, body, provider="anthropic").kind == "quota"
    waiting = error(429, body, {"retry-after": "2"}, provider="anthropic")
    assert (waiting.kind, waiting.retry_after) == ("rate_limit", 2.0)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:17:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_in_each_of_its_forms(headers, seconds):
    assert error(503, b"", headers).retry_after == seconds


@pytest.mark.parametrize(("said", "retryable"), [("true", True), ("false", False)])
def test_a_provider_that_says_whether_to_retry_is_believed(said, retryable):
    assert error(500, b"", {"x-should-retry": said}).retryable is retryable
    assert error(400, b"", {"x-should-retry": said}).retryable is retryable


def test_a_body_that_is_no_json_is_quoted_bounded():
    made = error(502, b"<html>\n" + b"x" * 9000)
    assert made.message.startswith("<html> x")
    assert len(made.message) <= 501


@pytest.mark.parametrize(
    "body", [b"[]", b"null", b'{"error": "words"}', b'{"detail": "words"}', b"\xff"]
)
def test_error_bodies_of_any_shape_are_read(body):
    assert error(400, body).message


def test_the_request_id_is_the_header_s_or_the_body_s():
    assert error(500, b"", {"request-id": "a"}).request_id == "a"
    assert error(500, b"", {"x-request-id": "b"}).request_id == "b"
    assert error(500, b'{"error":{},"request_id":"c"}').request_id == "c"


def test_a_redirect_says_what_to_correct():
    assert "base_url" in error(301, b"", {"location": "https://elsewhere"}).message


def test_an_error_reads_as_one_line():
    made = error(529, anthropic("overloaded_error", "Over\nloaded"), {"request-id": "r1"})
    assert str(made) == "overloaded (HTTP 529): Over loaded [request r1]"


def test_a_stream_error_without_a_known_code_may_be_retried():
    assert stream_error("", "").retryable
