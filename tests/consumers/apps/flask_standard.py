"""Standard Webhooks in Flask: the raw body, the library's own check, one row for each event."""

import os

from flask import Flask, request
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

app = Flask(__name__)
webhook = Webhook(os.environ["WEBHOOK_SECRET"])


@app.post("/webhooks/orders")
def orders():
    try:
        event = webhook.verify(request.get_data(), request.headers)
    except WebhookVerificationError as error:
        return {"error": str(error)}, 400
    with open(os.environ["DATABASE"], "a") as database:
        database.write(f"{request.headers['webhook-id']} {event['type']}\n")
    return {"received": True}
