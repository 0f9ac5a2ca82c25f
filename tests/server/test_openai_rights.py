"""`/v1` under rules: personal data, users with roles, tenants."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from artelier.kernel import Policy
from artelier.pii.vault import placeholders_in
from artelier.server.security.users import ProgramTokens, Users, token_hash
from tests.server.house import house
from tests.server.test_personal import ANA, KEY, SEES, assert_nowhere

BODY: dict[str, Any] = {"model": "scripted:one", "messages": [{"role": "user", "content": f"who is {ANA}?"}]}


def repeated(request: object) -> str:
    return f"that is {placeholders_in(str(request))[0]}"


def test_personal_data_is_replaced_before_the_model_and_given_back_to_who_may_see_it(tmp_path: Path) -> None:
    async def main() -> None:
        tokens = ProgramTokens(tmp_path / "tokens")
        token = tokens.add("test", now_us=1)
        async with house(
            tmp_path, repeated, repeated, policy=Policy(pii=True, backoff_s=0), environ=KEY,
            tokens_file=tmp_path / "tokens",
        ) as made:  # fmt: skip
            await made.desk.state()
            await made.kernel.tenants.update("default", grants=SEES)
            client = made.stranger(authorization=f"Bearer {token}", **{"artelier-run": "r"})
            whole = await client.post("/v1/chat/completions", json=BODY)
            assert whole.json()["choices"][0]["message"]["content"] == f"that is {ANA}"
            typed = {**BODY, "messages": [{"role": "user", "content": f"and {ANA} <EMAIL_1>?"}]}
            streamed = await client.post("/v1/chat/completions", json={**typed, "stream": True})
            frames = [line[6:] for line in streamed.text.splitlines() if line.startswith("data: {")]
            deltas = [json.loads(one)["choices"][0]["delta"].get("content", "") for one in frames]
            assert "".join(deltas) == f"that is {ANA}"
            assert all(ANA not in str(request) for request in made.model.requests)
            again = await client.post("/v1/chat/completions", json=BODY)
            assert again.json()["artelier"]["replayed"] is True
            beyond = await client.post("/v1/chat/completions", json={**BODY, "documents": [ANA]})
            assert (beyond.status_code, beyond.json()["error"]["param"]) == (400, "documents")
            named = await client.post("/v1/chat/completions", json=BODY, headers={"artelier-run": ANA})
            assert named.status_code == 400
            assert ANA not in named.text

    asyncio.run(main())
    assert_nowhere(tmp_path, ANA)


PEOPLE = (("vera", "viewer", "a"), ("olga", "operator", "a"), ("otto", "operator", "b"))


def people() -> Users:
    return Users.parse(
        {
            "users": [
                {"name": name, "role": role, "tenants": [tenant], "tokens": [token_hash(f"secret-of-{name}")]}
                for name, role, tenant in PEOPLE
            ]
        }
    )


def test_roles_and_tenants_hold_as_everywhere(tmp_path: Path) -> None:
    async def main() -> None:
        async with house(tmp_path, "mine", "his", users=people(), tenant="a") as made:
            body = {**BODY, "messages": [{"role": "user", "content": "hi"}]}

            async def ask(name: str, **headers: str) -> Any:
                client = made.stranger(authorization=f"Bearer secret-of-{name}", **headers)
                return await client.post("/v1/chat/completions", json=body, headers={"artelier-run": "r"})

            viewer = await ask("vera")
            assert viewer.status_code == 403
            assert viewer.json()["error"]["type"] == "permission_error"
            mine, his = await ask("olga"), await ask("otto")
            assert mine.json()["choices"][0]["message"]["content"] == "mine"
            assert his.json()["choices"][0]["message"]["content"] == "his", "a run of that name is another's"
            other = await ask("otto", **{"x-artelier-tenant": "a"})
            assert other.status_code == 404
            assert len(made.model.requests) == 2

    asyncio.run(main())
