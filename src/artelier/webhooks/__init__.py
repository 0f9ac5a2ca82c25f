"""Webhooks by the Standard Webhooks specification: signed events go out, signed requests come in.

`artelier.webhooks.delivery` drives what goes out and is loaded with the first worker; the server's route
`routes/webhooks.py` takes what comes in.
"""

from artelier.ports.webhook import IncomingWebhook, OutgoingWebhook
from artelier.webhooks.signed_requests import WebhookRefused, sign, verify

__all__ = ["IncomingWebhook", "OutgoingWebhook", "WebhookRefused", "sign", "verify"]
