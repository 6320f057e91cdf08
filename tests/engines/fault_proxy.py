"""A store that answers badly: an HTTP server of 127.0.0.1 that asks another one, and spoils some answers.

    with fault_proxy.FaultProxy(swift.endpoint) as proxy:
        proxy.spoil(fault_proxy.every(20, "cut"))      # 5 % of the answers with parts of objects
        ...                                             # of a client of proxy.endpoint

Requests go on as they are, so that their signatures stay right.
"""

import http.client
import http.server
import threading
import time
import urllib.parse

DELAY_S = 0.5
REFUSAL = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Not for you.</Message></Error>"


def every(count, *kinds):
    """A fault for each answer number `count`, 2 * `count` and so on: the kinds in turn."""
    return lambda number: kinds[number // count % len(kinds)] if number % count == 0 else None


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        super().setup()
        self.store = http.client.HTTPConnection(self.server.store, timeout=60)

    def finish(self):
        self.store.close()
        super().finish()

    def do_GET(self):
        self.store.putrequest("GET", self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            self.store.putheader(name, value)
        self.store.endheaders()
        answer = self.store.getresponse()
        body = answer.read()
        fault = self.server.proxy.next_fault() if answer.status == http.HTTPStatus.PARTIAL_CONTENT else None
        if fault == "delay":
            time.sleep(DELAY_S)
        elif fault == "refuse":
            return self.send(http.HTTPStatus.FORBIDDEN, [("Content-Type", "application/xml")], REFUSAL, len(REFUSAL))
        elif fault == "damage":
            middle = len(body) // 2
            body = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1:]
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in ("content-length", "connection")]
        self.send(answer.status, headers, body[:len(body) // 2] if fault == "cut" else body, len(body))
        self.close_connection = fault == "cut"

    def send(self, status, headers, body, length):
        self.send_response_only(status)
        for name, value in [*headers, ("Content-Length", str(length))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        """A client that left, or a store that is away: the client sees a closed connection."""


class FaultProxy:
    def __init__(self, endpoint):
        self.fault, self.answers, self.faults = lambda number: None, 0, 0
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Answers)
        self.server.proxy, self.server.store = self, urllib.parse.urlsplit(endpoint).netloc
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def spoil(self, fault):
        """From now on, answers with parts of objects have the fault that `fault` says for their number, from 1 on."""
        with self.lock:
            self.fault, self.answers, self.faults = fault, 0, 0

    def next_fault(self):
        with self.lock:
            self.answers += 1
            kind = self.fault(self.answers)
            self.faults += kind is not None
            return kind
