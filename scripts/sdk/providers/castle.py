from types import SimpleNamespace

from castle.webhooks.verify import WebhooksVerify
from frame import installed

sdk = installed("castle")


def verify(request, keys):
    # A web framework's headers are looked up without regard to case; the SDK asks for one spelling.
    headers = {"X-Castle-Signature": request["headers"].get("x-castle-signature")}
    webhook = SimpleNamespace(headers=headers, data=request["body"])
    WebhooksVerify.call(webhook, SimpleNamespace(api_secret=keys["secret"]))
    return True
