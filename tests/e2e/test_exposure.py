"""Who can reach the server, and how: keys, TLS, unix sockets, public addresses, pages in browsers."""

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time

import httpx2
import openai
import pytest

from cluster import Cluster, KAIJU, MINI, PATIENCE, completion, eventually

MESSAGES = [{"role": "user", "content": "Write a Python function that adds two numbers."}]
KEY = "a-key.of~the+tests=="


def private(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def certificate(directory, name="server", days=2, **options):
    """A certificate for 127.0.0.1 that is its own root, and its key."""
    directory.mkdir(exist_ok=True)
    files = directory / f"{name}.pem", directory / f"{name}.key"
    kind = options.get("kind", ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
    secret = ["-passout", "pass:secret"] if options.get("passphrase") else ["-nodes"]
    subprocess.run(["openssl", "req", "-x509", *kind, *secret, "-days", str(days), "-subj", "/CN=kaiju", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    files[1].chmod(0o600)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("exposure")
    pem, key = certificate(directory)
    return {"keys": private(directory / "api.keys", f"# of the tests\nanother-key\n{KEY}\n"), "pem": pem, "key": key,
            "socket": directory / "kaiju.sock"}


@pytest.fixture(scope="module")
def guarded(files):
    """A lead with keys and TLS, and a unix socket beside its port."""
    with Cluster() as owned:
        lead = owned.lead([], "--parallel", 4, "--api-key-file", files["keys"], "--tls-cert", files["pem"], "--tls-key",
                          files["key"], "--socket", files["socket"])
        lead.wait_for_line("serving at https://127.0.0.1:[0-9]+ and unix:")
        yield lead


def trusting(files, version=None):
    context = ssl.create_default_context(cafile=files["pem"])
    if version:
        context.minimum_version = context.maximum_version = version
    return context


def client(lead, files, key=KEY, **options):
    web = openai.DefaultHttpxClient(verify=trusting(files))
    return openai.OpenAI(base_url=lead.url + "/v1", api_key=key, max_retries=0, timeout=PATIENCE, http_client=web, **options)


def socket_client(path, key="none"):
    web = openai.DefaultHttpxClient(transport=httpx2.HTTPTransport(uds=str(path)))
    return openai.OpenAI(base_url="http://kaiju/v1", api_key=key, max_retries=0, timeout=PATIENCE, http_client=web)


def raw(lead, files=None, version=None):
    plain = socket.create_connection(("127.0.0.1", lead.port), timeout=PATIENCE)
    return trusting(files, version).wrap_socket(plain, server_hostname="127.0.0.1") if files else plain


def read_all(connection):
    gathered = b""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while part := connection.recv(65536):
            gathered += part
    return gathered


def kaiju(*arguments):
    return subprocess.run([KAIJU, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE)


def refused(*arguments):
    done = kaiju("serve", MINI, "--port", 0, *arguments)
    assert done.returncode in (1, 2) and done.stdout == "", done
    return done.stderr.splitlines()[0 if done.returncode == 2 else -1]


# Keys


def test_the_sdk_with_a_key_gets_what_it_gets_without(guarded, files, solo):
    with client(guarded, files) as web:
        answer = web.chat.completions.create(model="any", messages=MESSAGES, temperature=0, max_tokens=40)
        assert len(web.models.list().data) == 1
    with solo.client() as web:
        expected = web.chat.completions.create(model="any", messages=MESSAGES, temperature=0, max_tokens=40)
    assert answer.choices == expected.choices


@pytest.mark.parametrize("key", ["wrong", KEY[:-1], KEY + "=", KEY.upper(), "# of the tests"])
def test_the_sdk_with_a_wrong_key(guarded, files, key):
    with client(guarded, files, key) as web, pytest.raises(openai.AuthenticationError) as refusal:
        web.chat.completions.create(model="any", messages=MESSAGES)
    assert refusal.value.code == "invalid_api_key" and refusal.value.type == "invalid_request_error"
    assert refusal.value.response.headers["WWW-Authenticate"] == 'Bearer realm="kaiju"'
    assert key not in refusal.value.message


def test_the_header_of_the_other_sdks(guarded, files):
    with httpx2.Client(verify=trusting(files), base_url=guarded.url) as web:
        assert web.get("/v1/models", headers={"x-api-key": "another-key"}).status_code == 200
        assert web.get("/v1/models", headers={"x-api-key": "another"}).status_code == 401


def test_only_health_and_the_page_are_open(guarded, files):
    with httpx2.Client(verify=trusting(files), base_url=guarded.url) as web:
        assert web.get("/health").json() == {"status": "ok"}
        assert web.get("/").headers["content-type"].startswith("text/html")
        for path in ("/metrics", "/cluster", "/v1/models", "/v1/models/kaiju-mini", "/page/nothing", "/nothing"):
            answer = web.get(path)
            assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
            assert web.get(path, headers={"Authorization": f"Bearer {KEY}"}).status_code in (200, 404)
        assert web.post("/v1/completions", content=b"{").status_code == 401


def test_keys_are_in_no_log(guarded, files):
    with httpx2.Client(verify=trusting(files), base_url=guarded.url) as web:
        web.get("/v1/models", headers={"Authorization": f"Bearer {KEY}"})
        web.get("/v1/models", headers={"Authorization": "Bearer wrong-key"})
    assert KEY not in guarded.log() and "wrong-key" not in guarded.log()


def test_a_key_of_keygen_is_an_api_key(cluster, tmp_path):
    path = tmp_path / "api.key"
    assert kaiju("keygen", path).returncode == 0
    lead = cluster.lead([], "--api-key-file", path).wait_ready()
    assert lead.get("/v1/models")[0] == 401
    with openai.OpenAI(base_url=lead.url + "/v1", api_key=path.read_text().strip(), max_retries=0) as web:
        assert len(web.models.list().data) == 1


def test_top_with_a_key(cluster, files):
    lead = cluster.lead([], "--api-key-file", files["keys"]).wait_ready()
    done = kaiju("top", lead.url, "--once", "--interval", 0.1, "--api-key-file", files["keys"])
    assert done.returncode == 0 and "kaiju kaiju-mini" in done.stdout
    done = kaiju("top", lead.url, "--once", "--interval", 0.1)
    assert done.returncode == 1 and "401: it needs an API key, see --api-key-file" in done.stderr
    wrong = private(files["keys"].with_name("wrong.key"), "wrong-key\n")
    done = kaiju("top", lead.url, "--once", "--interval", 0.1, "--api-key-file", wrong)
    assert done.returncode == 1 and "401: the API key is not one of the server's" in done.stderr
    assert "wrong-key" not in done.stderr + done.stdout


def test_key_files_that_are_refused(tmp_path):
    path = private(tmp_path / "api.keys", "secret\n")
    path.chmod(0o644)
    assert "others may read the API keys (permissions 0644); run `chmod 600" in refused("--api-key-file", path)
    path.chmod(0o600)
    path.write_text("good\nsecret secret\n")
    line = refused("--api-key-file", path)
    assert f"{path}: line 2: more than one word" in line and "secret" not in line.replace(str(path), "")
    path.write_text("# nothing\n")
    assert "holds no API key" in refused("--api-key-file", path)
    assert "No such file" in refused("--api-key-file", tmp_path / "none")


# TLS


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(guarded, files, version):
    with raw(guarded, files, version) as connection:
        assert connection.version() == {"TLSv1_2": "TLSv1.2", "TLSv1_3": "TLSv1.3"}[version.name]
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert read_all(connection).endswith(b'{"status":"ok"}')


def test_older_versions_of_tls_are_refused(guarded, files):
    context = trusting(files)
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="127.0.0.1")


def test_http_1_1_is_agreed_on(guarded, files):
    for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["h2"], None)):
        context = trusting(files)
        context.set_alpn_protocols(offered)
        plain = socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            assert connection.selected_alpn_protocol() == chosen


def test_plain_http_on_the_tls_port_is_closed(guarded):
    with raw(guarded) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"HTTP/1.1 200" not in read_all(connection)


def test_a_stream_over_tls_joins_to_the_whole(guarded, files):
    with client(guarded, files) as web:
        fields = completion("def add(", max_tokens=200, temperature=0)
        whole = web.completions.create(**fields).choices[0].text
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            def joined(_):
                return "".join(chunk.choices[0].text for chunk in web.completions.create(stream=True, **fields))
            assert set(pool.map(joined, range(8))) == {whole}


def test_a_large_body_over_tls(guarded, files):
    """Megabytes in, in many records, and a long answer out."""
    words = "word " * 400_000
    with httpx2.Client(verify=trusting(files), base_url=guarded.url, timeout=PATIENCE,
                       headers={"Authorization": f"Bearer {KEY}"}) as web:
        answer = web.post("/v1/completions", json={"prompt": words})
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "context_length_exceeded"
        answer = web.post("/v1/completions", content=b" " * (33 << 20))
        assert answer.status_code == 413


@pytest.mark.parametrize("farewell", [True, False])
def test_a_client_that_leaves_over_tls_cancels_its_request(guarded, files, farewell):
    def cancelled():
        with httpx2.Client(verify=trusting(files), headers={"x-api-key": KEY}) as web:
            text = web.get(guarded.url + "/metrics").text
        return int(next(line for line in text.splitlines() if line.startswith("kaiju_requests_cancelled_total")).split()[1])

    before = cancelled()
    body = json.dumps(completion("def f(", max_tokens=4000, stream=True, ignore_eos=None) | {"ignore_eos": True}).encode()
    connection = raw(guarded, files)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s"
                       % (KEY.encode(), len(body), body))
    gathered = b""
    while gathered.count(b"data: ") < 3:
        gathered += connection.recv(65536)
    if farewell:
        with contextlib.suppress(ssl.SSLError, OSError):
            connection.unwrap()
    connection.close()
    eventually(lambda: cancelled() == before + 1, "the request is cancelled")


def test_the_end_of_a_connection_is_told(guarded, files):
    """close_notify: a client can tell a complete answer from one that was cut."""
    with raw(guarded, files) as connection:
        connection.suppress_ragged_eofs = False
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        while connection.recv(65536):
            pass  # the wrapper raises SSLEOFError where the notice is missing


def test_a_handshake_that_never_comes_is_ended(cluster, files):
    lead = cluster.lead([], "--tls-cert", files["pem"], "--tls-key", files["key"], "--idle-timeout", 3600)
    with raw(lead) as silent, raw(lead) as half:
        half.sendall(b"\x16\x03\x01")
        for connection in (silent, half):
            assert read_all(connection) == b""


def test_a_reader_that_takes_nothing_over_tls_is_dropped(cluster, files):
    lead = cluster.lead([], "--parallel", 1, "--tls-cert", files["pem"], "--tls-key", files["key"], "--write-timeout", 0.5,
                        "--ctx", 4096)
    lead.wait_for_line("serving at")
    connection = raw(lead, files)
    request = b"POST /nothing%s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" % (b"x" * 3000)

    # Its answers are never read: they fill the socket, then the server's buffer, and then it ends.
    connection.settimeout(0.2)
    give_up = time.monotonic() + PATIENCE
    with pytest.raises((ConnectionError, ssl.SSLError)):
        while time.monotonic() < give_up:
            with contextlib.suppress(TimeoutError):
                connection.send(request)
    connection.close()


def test_certificates_that_are_refused(tmp_path, files):
    pem, key = files["pem"], files["key"]
    other_pem, other_key = certificate(tmp_path, "other")
    rsa_pem, rsa_key = certificate(tmp_path, "rsa", kind=["-newkey", "rsa:2048"])
    secret_pem, secret_key = certificate(tmp_path, "secret", passphrase=True)
    garbage = private(tmp_path / "garbage", "nothing\n")
    loose = private(tmp_path / "loose", key.read_text())
    loose.chmod(0o604)
    for arguments, texts in [
        ((pem, other_key), (other_key, "is not that of the certificate")),
        ((pem, rsa_key), (rsa_key, "is not that of the certificate")),
        ((secret_pem, secret_key), (secret_key, "is encrypted with a passphrase")),
        ((garbage, key), (garbage, "holds no certificate")),
        ((pem, garbage), (garbage, "holds no private key")),
        ((pem, loose), (loose, "everybody may read the TLS key (permissions 0604)")),
        ((tmp_path / "none", key), (tmp_path / "none", "No such file")),
        ((pem, tmp_path), (tmp_path, "not a regular file")),
    ]:
        line = refused("--tls-cert", arguments[0], "--tls-key", arguments[1])
        assert all(str(text) in line for text in texts), line
    assert "--tls-cert needs --tls-key too" in refused("--tls-cert", pem)
    assert "--tls-key needs --tls-cert too" in refused("--tls-key", key)


# Unix sockets


def test_a_unix_socket_alone(cluster, tmp_path, solo):
    path = tmp_path / "kaiju.sock"
    lead = cluster.start("lead", KAIJU, "serve", MINI, "--socket", path)
    lead.wait_for_line(f"serving at unix:{path}$")
    status = path.lstat()
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o600
    with socket_client(path) as web:
        fields = completion("def add(", max_tokens=20, temperature=0)
        assert web.completions.create(**fields).choices[0].text == solo.complete("def add(", max_tokens=20, temperature=0)
    # No port is open besides. (A connection may be closed while its descriptor is read.)
    inodes = set()
    for name in os.listdir(f"/proc/{lead.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            inodes.add(os.readlink(f"/proc/{lead.pid}/fd/{name}"))
    for table in ("tcp", "tcp6"):
        for line in open(f"/proc/{lead.pid}/net/{table}").readlines()[1:]:
            state, inode = line.split()[3], line.split()[9]
            assert not (state == "0A" and f"socket:[{inode}]" in inodes), line
    assert lead.stop() == 0
    assert not path.exists()


def test_a_socket_beside_the_port_needs_the_key_too(guarded, files):
    with socket_client(files["socket"]) as web, pytest.raises(openai.AuthenticationError):
        web.models.list()
    with socket_client(files["socket"], KEY) as web:
        assert len(web.models.list().data) == 1


def test_the_socket_of_a_killed_server_is_replaced(cluster, tmp_path):
    path = tmp_path / "kaiju.sock"
    first = cluster.start("first", KAIJU, "serve", MINI, "--socket", path)
    first.wait_for_line("serving at")
    second = cluster.start("second", KAIJU, "serve", MINI, "--socket", path)
    assert second.wait() == 1 and f"another process listens on {path}" in second.log()
    first.kill()
    assert path.exists()
    third = cluster.start("third", KAIJU, "serve", MINI, "--socket", path)
    third.wait_for_line("serving at")
    with socket_client(path) as web:
        assert len(web.models.list().data) == 1
    assert third.stop(signal.SIGINT) == 0 and not path.exists()


def test_a_file_in_the_place_of_the_socket_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert "exists and is no socket" in refused("--socket", path)
    assert path.read_text() == "mine"


# Public addresses


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_public_address_needs_a_key(host):
    line = refused("--host", host)
    assert f"{host} can be reached from other machines" in line and "--api-key-file" in line and "--insecure" in line


def test_a_public_address_with_tls_needs_a_key_all_the_same(files):
    assert "can be reached from other machines" in refused("--host", "0.0.0.0", "--tls-cert", files["pem"], "--tls-key",
                                                            files["key"])


def test_a_public_address_that_was_asked_for(cluster, files):
    lead = cluster.lead([], "--host", "0.0.0.0", "--insecure").wait_ready()
    assert lead.get("/v1/models")[0] == 200
    lead.stop()
    lead = cluster.lead([], "--host", "0.0.0.0", "--api-key-file", files["keys"]).wait_ready()
    assert lead.get("/v1/models")[0] == 401
    assert "API keys cross the network readable for all" in lead.log()
    lead.stop()
    assert "contradict" in refused("--insecure", "--api-key-file", files["keys"])


# Pages in browsers

PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def test_h14_the_pages_that_are_listed(cluster):
    lead = cluster.lead([], "--cors-origin", "https://chat.example,http://localhost:3000").wait_ready()
    with httpx2.Client(base_url=lead.url) as web:
        for origin, allowed in (("https://chat.example", True), ("http://localhost:3000", True),
                                ("https://evil.example", False), ("null", False)):
            answer = web.options("/v1/chat/completions", headers={"Origin": origin, **PREFLIGHT})
            assert answer.status_code == 204 and answer.headers["Vary"] == "Origin"
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
            assert "Access-Control-Allow-Credentials" not in answer.headers
            answer = web.post("/v1/completions", json={"prompt": "a", "max_tokens": 1}, headers={"Origin": origin})
            assert answer.status_code == (200 if allowed else 403)
            assert answer.headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)
    assert "\"example\" is no origin" in refused("--cors-origin", "example")


def test_h14_a_name_that_was_pointed_at_this_machine(solo):
    with httpx2.Client(base_url=solo.url) as web:
        for path in ("/v1/models", "/metrics", "/health"):
            answer = web.get(path, headers={"Host": f"evil.example:{solo.port}"})
            assert answer.status_code == 403 and answer.json()["error"]["code"] == "host_not_allowed"
            assert web.get(path, headers={"Host": f"localhost:{solo.port}"}).status_code == 200


# Limits


def test_limits_are_options(cluster):
    lead = cluster.lead([], "--max-body", "4KiB", "--max-head", 2000, "--max-headers", 12, "--request-timeout", 0.3,
                        "--max-connections", 100).wait_ready()
    with httpx2.Client(base_url=lead.url) as web:
        assert web.post("/v1/completions", content=b" " * 4097).status_code == 413
        assert web.post("/v1/completions", content=b" " * 4096).status_code == 400
        assert web.get("/health", headers={"X": "x" * 2000}).status_code == 431
        assert web.get("/health", headers={f"X-{i}": "x" for i in range(12)}).status_code == 431
    with raw(lead) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")
    for option, value in (("--max-body", "1"), ("--max-head", "20MiB"), ("--max-headers", "0"), ("--idle-timeout", "-1"),
                          ("--request-timeout", "nan"), ("--write-timeout", "1s"), ("--max-connections", "many")):
        line = refused(option, value)
        assert option in line, line
