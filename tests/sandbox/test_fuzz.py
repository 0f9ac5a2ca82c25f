"""Whatever text comes: a run ends with a result or a `SandboxError`, and the checker with a list."""

from __future__ import annotations

import asyncio
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from artelier.ports.sandbox import SandboxLimits
from artelier.sandbox import MontySandbox, SandboxError, check_code

LIMITS = SandboxLimits(time_ms=50, memory_bytes=8 * 1024 * 1024, output_bytes=2_000, depth=50)

PIECES = (
    "x y f g 0 1 -1 10**9 'a' b'a' None [] {} () ... __class__ __globals__ __builtins__ os sys open "
    "eval exec print getattr helper range list map sorted str bytes ( ) [ ] { } : , . = == + - * ** / // % "
    "<< | & ~ not in is and or if else for while def class lambda return yield import from as try except "
    "finally raise with async await del global match case := @ -> f'{x}' \\ # \n"
).split(" ")

CODE = st.lists(st.sampled_from(PIECES), max_size=30).map(" ".join) | st.text(max_size=200)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(code=CODE)
def test_any_text_ends_with_data_or_a_sandbox_error(sandbox: MontySandbox, code: str):
    check_code(code)

    try:
        result = asyncio.run(sandbox.run(code, functions={"helper": lambda *args: None}, limits=LIMITS))
    except SandboxError as error:
        assert len(str(error)) < 1_000
    else:
        json.dumps(result.value, allow_nan=False)
        assert len(result.printed) <= LIMITS.output_bytes
