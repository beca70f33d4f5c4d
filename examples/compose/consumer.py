"""A webhook consumer for docker-compose.yaml: says what it is called with, and accepts it."""

import contextlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Consumer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        told = {name: self.headers.get(f"Hookonce-{name}") for name in ("Event-Id", "Attempt", "Maybe-Duplicate")}
        print(f"called: {self.path}, {len(body)} bytes, {told}", flush=True)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """It has said so already."""


PORT = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
with contextlib.suppress(KeyboardInterrupt):
    ThreadingHTTPServer(("", PORT), Consumer).serve_forever()
