import django
from django.conf import settings
from frame import installed

settings.configure(ALLOWED_HOSTS=["*"], ANYMAIL={"MAILGUN_WEBHOOK_SIGNING_KEY": "unused"})
django.setup()

from anymail.webhooks.mailgun import MailgunTrackingWebhookView  # noqa: E402
from django.test import RequestFactory  # noqa: E402

sdk = installed("django-anymail")


def verify(request, keys):
    view = MailgunTrackingWebhookView(webhook_signing_key=keys["secret"])
    content_type = request["headers"]["content-type"]
    view.validate_request(RequestFactory().post("/", request["body"], content_type=content_type))
    return True
