"""The rendezvous that horovodrun would serve: keys and values over HTTP, where Horovod's ranks on Gloo leave their
addresses (PUT), look for those of the others (GET; 404: not there yet) and say that they have them (DELETE).
"""

import http.server
import threading

MOST_BYTES = 1 << 20  # of one value


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 30  # of a peer that stops in the middle of a request

    def _answer(self, code, content=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self):
        with self.server.lock:
            content = self.server.values.get(self.path)
        self._answer(404 if content is None else 200, content or b"")

    def do_PUT(self):
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES:
            self._answer(400)
            return
        content = self.rfile.read(length)
        with self.server.lock:
            self.server.values[self.path] = content
        self._answer(200)

    def do_DELETE(self):
        self._answer(200)  # other ranks may still look

    def log_message(self, *_):
        pass


def serve(address, port):
    """Serves from a thread until the program ends; port 0 takes a free one. Gives the server."""
    server = http.server.ThreadingHTTPServer((address, port), _Handler)
    server.daemon_threads = True
    server.lock, server.values = threading.Lock(), {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def serve_if_first(environment):
    """Rank 0 of a run on Gloo serves; under MPI, and under horovodrun, nobody has to. Gives the server, or None."""
    if environment.get("HOROVOD_CONTROLLER") != "gloo" or environment.get("HOROVOD_RANK") != "0":
        return None
    if "MLBENCH_RUN_DIR" not in environment or "HOROVOD_GLOO_RENDEZVOUS_PORT" not in environment:
        return None
    return serve(environment["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(environment["HOROVOD_GLOO_RENDEZVOUS_PORT"]))
