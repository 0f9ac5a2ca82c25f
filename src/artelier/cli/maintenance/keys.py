"""`artelier keys`: the key that what is stored is encrypted by."""

from __future__ import annotations

import os

from artelier.cli.call import CliCall
from artelier.cli.command import command, group
from artelier.cli.display import count
from artelier.errors import MissingKey

NEW_KEY = "ARTELIER_VAULT_KEY_NEW"
"""The environment variable of the vault key to come."""

app = group("keys", help="Change the key that what is stored is encrypted by.")


@command(app, name="rotate", example="artelier keys rotate")
async def rotate(call: CliCall) -> None:
    """Encrypt the keys of what is stored by another vault key.

    ARTELIER_VAULT_KEY is the one of now, ARTELIER_VAULT_KEY_NEW the one to come. Stop workers and servers
    first, and start them with the new one. Contents stay as they are, and backups keep the old key.
    """
    new = os.environ.get(NEW_KEY, "")
    if not new:
        raise MissingKey(
            "there is no new vault key",
            expected=f"{NEW_KEY}: 32 bytes in hex or base64, or at least 16 characters",
            hint='Make one, and keep it elsewhere: python -c "import secrets; print(secrets.token_hex(32))"',
        )
    async with call.kernel() as kernel:
        with call.screen.working("encrypting keys"):
            done = await kernel.rotate_keys(new)
    if call.as_json:
        import msgspec

        call.screen.json(msgspec.to_builtins(done))
        return
    call.screen.line(f"{count(done.keys, 'key')} encrypted by the new vault key", "bold")
    if not done.cleaned:
        call.screen.note(
            "Another process still reads an older state of the file. End it, and call `artelier gc`."
        )
    call.screen.note(
        "From now on ARTELIER_VAULT_KEY is the new one. Keep the old one as long as backups need it."
    )
