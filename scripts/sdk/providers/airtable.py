from frame import installed
from pyairtable.models.webhook import WebhookNotification

sdk = installed("pyairtable")


def verify(request, keys):
    header = request["headers"]["x-airtable-content-mac"]
    WebhookNotification.from_request(request["body"].decode(), header, keys["secret"])
    return True
