"""Signatures of the Standard Webhooks specification."""

from __future__ import annotations

import base64

import pytest

from artelier.errors import InvalidConfig
from artelier.webhooks import IncomingWebhook, OutgoingWebhook, WebhookRefused, sign, verify

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(b"o" * 32).decode()
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'


def test_the_signature_is_that_of_the_specification() -> None:
    """The vector of the specification's own reference libraries."""
    headers = sign(BODY, id=ID, timestamp_s=AT, secret=SECRET)

    assert headers == {
        "webhook-id": ID,
        "webhook-timestamp": str(AT),
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify(BODY, headers, secrets=[SECRET], now_s=AT) == ID


def test_a_sender_may_change_its_secret() -> None:
    old, new = (sign(BODY, id=ID, timestamp_s=AT, secret=one) for one in (OTHER, SECRET))
    both = {**new, "webhook-signature": f"{old['webhook-signature']} {new['webhook-signature']}"}

    assert verify(BODY, both, secrets=[SECRET], now_s=AT) == ID
    assert verify(BODY, old, secrets=[SECRET, OTHER], now_s=AT) == ID


@pytest.mark.parametrize("late_s", [-300, 0, 300])
def test_a_signature_is_good_for_five_minutes(late_s: int) -> None:
    headers = sign(BODY, id=ID, timestamp_s=AT, secret=SECRET)

    assert verify(BODY, headers, secrets=[SECRET], now_s=AT + late_s) == ID


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OA="},
        {"webhook-signature": "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v1,\ud800é"},
        {"webhook-signature": ""},
        {"webhook-signature": " ".join(["v1,x"] * 16 + ["v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="])},
        {"webhook-timestamp": str(AT + 1)},
        {"webhook-timestamp": "now"},
        {"webhook-timestamp": "٣" * 10},
        {"webhook-timestamp": "9" * 400},
        {"webhook-timestamp": f"-{AT}"},
        {"webhook-id": "msg_other"},
        {"webhook-id": ""},
        {"webhook-id": "a\nb"},
        {"webhook-id": "x" * 257},
    ],
)
def test_what_is_not_signed_is_refused(change: dict[str, str]) -> None:
    headers = {**sign(BODY, id=ID, timestamp_s=AT, secret=SECRET), **change}

    with pytest.raises(WebhookRefused):
        verify(BODY, headers, secrets=[SECRET], now_s=AT)


@pytest.mark.parametrize("late_s", [-301, 301])
def test_an_old_or_future_signature_is_refused(late_s: int) -> None:
    headers = sign(BODY, id=ID, timestamp_s=AT, secret=SECRET)

    with pytest.raises(WebhookRefused, match="not of now"):
        verify(BODY, headers, secrets=[SECRET], now_s=AT + late_s)


def test_another_body_or_secret_is_refused() -> None:
    headers = sign(BODY, id=ID, timestamp_s=AT, secret=SECRET)

    with pytest.raises(WebhookRefused, match="does not fit"):
        verify(BODY + b" ", headers, secrets=[SECRET], now_s=AT)
    with pytest.raises(WebhookRefused, match="does not fit"):
        verify(BODY, headers, secrets=[OTHER], now_s=AT)


@pytest.mark.parametrize("secret", ["", "whsec_", "hunter2", "whsec_c2hvcnQ=", "whsec_!!!", OTHER[6:]])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        OutgoingWebhook(name="crm", url="https://example.org/hook", secret=secret)

    assert "not usable" in str(refused.value)
    assert not secret or secret == "whsec_" or secret not in str(refused.value)


def test_a_secret_is_not_shown() -> None:
    out = OutgoingWebhook(name="crm", url="https://example.org/hook", secret=SECRET)
    incoming = IncomingWebhook(name="crm", secrets=(SECRET,), actions=("signal",))

    assert SECRET not in repr(out) + repr(incoming)


@pytest.mark.parametrize(
    "given",
    [{"events": ()}, {"events": ("run.exploded",)}, {"events": ("tool.*",)}, {"name": "A/B"}, {"name": ""}],
)
def test_a_webhook_without_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        OutgoingWebhook(**{"name": "crm", "url": "https://example.org", "secret": SECRET, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"run": "r"},
        {"signal": "s"},
        {"run": "r", "signal": "s", "actions": ("signal",)},
        {"actions": ("drop",)},
        {"actions": ("signal",), "secrets": ()},
    ],
)
def test_an_incoming_webhook_without_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        IncomingWebhook(**{"name": "crm", "secrets": (SECRET,), **given})  # type: ignore[arg-type]
