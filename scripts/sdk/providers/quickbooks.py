from frame import installed
from quickbooks.client import QuickBooks

sdk = installed("python-quickbooks")


def verify(request, keys):
    signature = request["headers"]["intuit-signature"]
    return QuickBooks.validate_webhook_signature(
        None, request["body"].decode(), signature, keys["secret"]
    )
