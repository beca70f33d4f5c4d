"""Single deliveries, sent to see that a server answers as it should before it is measured."""

import hashlib
import hmac
import http.client

from .proc import Trouble

SECRET = "a-secret-of-the-benchmark-lab"
OPENING = '{"ref":"refs/heads/main","commits":"'


def body_of(event: str, size: int) -> bytes:
    """The same bytes as deliveries.lua makes for this event."""
    ending = f'","id":"{event}"}}'
    return (OPENING + "x" * (size - len(OPENING) - len(ending)) + ending).encode() if size else b""


def send(port: int, event: str, size: int, path: str = "/github", is_forged: bool = False) -> int:
    """Gives the status of the answer."""
    body = body_of(event, size)
    mac = "0" * 64 if is_forged else hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "push", "X-GitHub-Delivery": event, "X-Hub-Signature-256": f"sha256={mac}"}
    headers["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def probe(name: str, port: int, run: str, size: int, verifies: bool) -> None:
    """Sends the event that others repeat, and a forgery; raises where the answer is not the right one."""
    if (status := send(port, f"{run}-first", size)) != 200:
        raise Trouble(f"{name} answers {status} to a delivery that is right")
    if verifies and (status := send(port, f"{run}-forged", size, is_forged=True)) != 401:
        raise Trouble(f"{name} answers {status} to a forgery")
