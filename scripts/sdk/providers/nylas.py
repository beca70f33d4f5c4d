from frame import installed
from nylas.client.restful_models import Webhook

sdk = installed("nylas")


def verify(request, keys):
    signature = request["headers"]["x-nylas-signature"]
    return Webhook.verify_webhook_signature(signature, request["body"], keys["secret"])
