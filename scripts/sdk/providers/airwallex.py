from airwallex import webhooks
from frame import installed

sdk = installed("airwallex")


def verify(request, keys):
    headers = request["headers"]
    webhooks.verify_signature(
        payload=request["body"],
        timestamp=headers["x-timestamp"],
        signature=headers["x-signature"],
        secret=keys["secret"],
    )
    return True
