"""What no SDK would send: bytes, limits and methods, against a lead without nodes."""

import json
import socket

import pytest

from cluster import RawRequest

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def exchange(lead, raw):
    """Sends bytes and gives status, headers and body of the answer; the server must close after it."""
    with socket.create_connection(("127.0.0.1", lead.port), timeout=30) as connection:
        try:
            connection.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was sent: the answer is there all the same
        answer = b""
        while part := connection.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:])}
    return int(lines[0].split()[1]), headers, body


def post(lead, path, body):
    return exchange(lead, b"POST %s HTTP/1.1\r\nHost: kaiju\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                    % (path.encode(), len(body), body))


def error_of(answer, status):
    assert answer[0] == status, answer
    assert answer[1]["content-type"] == "application/json"
    error = json.loads(answer[2])["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"] and error["type"]
    return error


@pytest.mark.parametrize("text", [rb"\ud800", rb"\udc00x", rb"\u0000", b"\xff", b"\xc3", b"\xf0\x9f\x98"])
def test_h3_invalid_text_is_refused_with_its_position(solo, text):
    for path, body in ((CHAT, b'{"messages":[{"role":"user","content":"%s"}]}'), (COMPLETIONS, b'{"prompt":"%s"}')):
        assert "line 1, column" in error_of(post(solo, path, body % text), 400)["message"]


NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
           "seed", "max_tokens", "n"]


@pytest.mark.parametrize("name", NUMBERS)
def test_h12_every_numeric_field(solo, name):
    wrong = [b'"1"', b"true", b"[]", b"{}", b"1e300", b"NaN", b"1e999", b"123456789012345678901234567890"]
    if name != "seed":
        wrong += [b"-1000", b"-9223372036854775808", b"9223372036854775807"]
    for value in wrong:
        for path, start in ((CHAT, b'{"messages":[{"role":"user","content":"a"}]'), (COMPLETIONS, b'{"prompt":"a"')):
            error = error_of(post(solo, path, b'%s,"%s":%s}' % (start, name.encode(), value)), 400)
            assert error["param"] in (name, None)


def test_h12_a_number_allocates_nothing(solo):
    before = solo.resident_bytes()
    for value in (10**6, 2**31 - 1, 2**32 - 1):
        request = RawRequest(solo, prompt="a", max_tokens=value, top_k=min(value, 2**31 - 1), stream=True)
        assert request.read_until(b"data: ").startswith(b"HTTP/1.1 200 ")
        request.drop()
    assert solo.resident_bytes() - before < 64 << 20


def test_h12_huge_headers_and_bodies(solo):
    assert error_of(exchange(solo, b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000), 431)
    many = b"".join(b"X-%d: y\r\n" % i for i in range(1000))
    assert error_of(exchange(solo, b"GET /health HTTP/1.1\r\nHost: a\r\n" + many + b"\r\n"), 431)
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n"
    assert error_of(exchange(solo, head + b"{" * 100_000), 413)
    chunked = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert error_of(exchange(solo, chunked + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 33), 413)


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b"{}", b'{"messages":5}', b'{"messages":[]}', b'{"a":1,"a":2}'])
def test_h13_bodies_that_are_no_request(solo, body):
    assert error_of(post(solo, CHAT, body), 400)


def test_h13_unknown_fields_are_ignored(solo):
    answer = post(solo, COMPLETIONS, b'{"prompt":"a","max_tokens":1,"stream_options":{},"frobnicate":{"x":[1]}}')
    assert answer[0] == 200


@pytest.mark.parametrize("method, path, status, allow", [
    (b"GET", CHAT, 405, "POST, OPTIONS"), (b"DELETE", "/v1/models", 405, "GET, HEAD, OPTIONS"),
    (b"BREW", "/health", 405, "GET, HEAD, OPTIONS"), (b"GET", "/v1/nothing", 404, None), (b"GET", "/page/nothing", 404, None),
])
def test_h13_methods_and_paths(solo, method, path, status, allow):
    answer = exchange(solo, b"%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % (method, path.encode()))
    error_of(answer, status)
    assert answer[1].get("allow") == allow


def test_h14_a_preflight_allows_no_origin(solo):
    status, headers, body = exchange(solo, b"OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                     b"Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n\r\n")
    assert (status, body) == (204, b"")
    assert not [name for name in headers if name.startswith("access-control-")]


def test_h16_health_and_metrics(solo):
    assert solo.get("/health")[::2] == (200, '{"status":"ok"}')
    status, headers, body = solo.get("/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for line in body.splitlines():
        assert line.startswith("# ") or float(line.rsplit(" ", 1)[1]) is not None
