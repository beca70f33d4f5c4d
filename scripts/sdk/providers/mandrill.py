import django
from django.conf import settings
from frame import installed

settings.configure(ALLOWED_HOSTS=["*"], ANYMAIL={"MANDRILL_WEBHOOK_KEY": "unused"})
django.setup()

from anymail.webhooks.mandrill import MandrillCombinedWebhookView  # noqa: E402
from django.test import RequestFactory  # noqa: E402

sdk = installed("django-anymail")


def verify(request, keys):
    view = MandrillCombinedWebhookView(webhook_key=keys["secret"], webhook_url=request["url"])
    headers = request["headers"]
    asked = RequestFactory().post(
        "/", request["body"], content_type=headers["content-type"], headers={"x-mandrill-signature": headers["x-mandrill-signature"]}
    )
    view.validate_request(asked)
    return True
