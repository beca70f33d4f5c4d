from frame import installed
from pypaystack2 import PaystackClient

sdk = installed("pypaystack2")


def verify(request, keys):
    client = PaystackClient(secret_key=keys["secret"])
    return client.is_verified_webhook_payload(
        request["body"], request["headers"]["x-paystack-signature"]
    )
