"""The forms of keys and tokens of well-known services, and the words that name a secret of any form."""

from __future__ import annotations

import re

_END = r"(?![A-Za-z0-9_])"
_FORMS: tuple[tuple[str, str], ...] = (
    # what must stand in the text, the form from there on (its issuer's documentation, or keys as seen)
    ("sk-", r"sk-(?:proj-|svcacct-|admin-|None-|ant-[a-z0-9]{2,12}-|or-v1-|lf-)[A-Za-z0-9_-]{16,300}"),
    ("sk-", r"sk-[A-Za-z0-9]{20,200}" + _END),
    ("pk-lf-", r"pk-lf-[a-f0-9-]{36}"),
    ("AKIA", r"AKIA[A-Z0-9]{16}" + _END),
    ("ASIA", r"ASIA[A-Z0-9]{16}" + _END),
    ("ghp_", r"ghp_[A-Za-z0-9]{36,251}" + _END),
    ("gho_", r"gho_[A-Za-z0-9]{36,251}" + _END),
    ("ghu_", r"ghu_[A-Za-z0-9]{36,251}" + _END),
    ("ghs_", r"ghs_[A-Za-z0-9]{36,251}" + _END),
    ("ghr_", r"ghr_[A-Za-z0-9]{36,251}" + _END),
    ("github_pat_", r"github_pat_[A-Za-z0-9_]{22,255}"),
    ("glpat-", r"glpat-[A-Za-z0-9_.-]{18,64}[A-Za-z0-9_-]"),
    ("glptt-", r"glptt-[A-Za-z0-9_-]{20,64}"),
    ("gldt-", r"gldt-[A-Za-z0-9_-]{20,64}"),
    ("glrt-", r"glrt-[A-Za-z0-9_-]{20,64}"),
    ("xox", r"xox[abeoprs]-(?:[0-9]-)?[A-Za-z0-9-]{10,250}"),
    ("xapp-", r"xapp-[0-9]-[A-Za-z0-9-]{10,250}"),
    ("hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{20,120}"),
    ("AIza", r"AIza[A-Za-z0-9_-]{30,45}(?![A-Za-z0-9_-])"),
    ("ya29.", r"ya29\.[A-Za-z0-9_-]{20,400}"),
    ("GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{20,40}"),
    ("k_live_", r"[srp]k_live_[A-Za-z0-9]{16,250}" + _END),
    ("k_test_", r"[srp]k_test_[A-Za-z0-9]{16,250}" + _END),
    ("whsec_", r"whsec_[A-Za-z0-9+/=]{24,100}"),
    ("npm_", r"npm_[A-Za-z0-9]{36}" + _END),
    ("pypi-", r"pypi-AgE[A-Za-z0-9_-]{40,400}"),
    ("hf_", r"hf_[A-Za-z0-9]{30,60}" + _END),
    ("SG.", r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{30,60}"),
    ("shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}" + _END),
    ("dop_v1_", r"dop_v1_[a-f0-9]{64}" + _END),
    ("gsk_", r"gsk_[A-Za-z0-9]{40,80}" + _END),
    ("xai-", r"xai-[A-Za-z0-9]{40,120}" + _END),
    ("pplx-", r"pplx-[A-Za-z0-9]{32,80}" + _END),
    ("tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9]{20,80}" + _END),
    ("r8_", r"r8_[A-Za-z0-9]{36,44}" + _END),
    ("dckr_pat_", r"dckr_pat_[A-Za-z0-9_-]{20,60}"),
    ("key-", r"key-[a-f0-9]{32}" + _END),
    ("sq0", r"sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{20,60}"),
    ("NRAK-", r"NRAK-[A-Z0-9]{27}" + _END),
    ("lin_api_", r"lin_api_[A-Za-z0-9]{32,60}" + _END),
    ("secret_", r"secret_[A-Za-z0-9]{40,60}" + _END),
    ("ntn_", r"ntn_[A-Za-z0-9]{40,60}" + _END),
    ("AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    ("hvs.", r"hvs\.[A-Za-z0-9_-]{20,250}"),
    (
        "eyJ",
        r"eyJ[A-Za-z0-9_-]{6,4000}\.[A-Za-z0-9_-]{6,20000}\.[A-Za-z0-9_-]{6,2000}"
        r"(?:\.[A-Za-z0-9_-]{6,4000}){0,2}",
    ),
    ("eyJ", r"eyJ[A-Za-z0-9_-]{6,4000}\.eyJ[A-Za-z0-9_-]{6,20000}\.?"),
    ("AA", r"(?<=[0-9]:)AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
)

FORMS: dict[str, tuple[re.Pattern[str], ...]] = {}
"""The forms by what must stand in the text."""
for _hint, _form in _FORMS:
    FORMS[_hint] = (*FORMS.get(_hint, ()), re.compile(_form))

HINT = re.compile("|".join(map(re.escape, sorted(FORMS, key=len, reverse=True))).encode())
"""Any of the hints."""

LEADS_OF_HINT = {"k_live_": 1, "k_test_": 1}
"""How far before its hint a form begins, where that is not there."""

TOKEN_CHARS_MIN = 16
"""Every form has this many token characters in a row: a text without them is not looked at further."""

PLAIN_KEYS = tuple(
    (hint, re.compile(name))
    for hint, name in (
        (b"pass", rb"pass(?:word|wd|phrase|wort|code)(?![a-rt-z])"),
        (b"pwd", rb"(?<![a-z])pwd"),
        (b"pw", rb"(?<![a-z])pw(?![a-z])"),
        (b"kennwort", rb"kennwort"),
        (b"contrase", rb"contrase.a"),
        (b"senha", rb"(?<![a-z])senha"),
    )
)
"""Names of secrets that people choose: what to look for in text of lower case, and the name from there on."""

SHORT_KEYS = (
    (b"pass", re.compile(rb"(?<!com)(?<!by)(?<!sur)(?<!tres)(?<!over)(?<!under)(?<!im)pass(?![a-z])")),
)
"""A word that names a secret, and what a test does: what follows must look like a password, too."""

TOKEN_KEYS = tuple(
    (hint, re.compile(name))
    for hint, name in (
        (b"secret", rb"secret(?:[_ .-]?key)?"),
        (b"token", rb"token"),
        (b"credential", rb"credential"),
        (b"key", rb"key"),
    )
)
"""Names of secrets that machines make, in the same way."""

KEY_OF = re.compile(rb"(?:api|access|private|account|auth|signing|encryption)[_ .-]?\Z")
"""What stands before `key` where it means a secret."""

NO_VALUE = re.compile(
    r"(?i)(?:none|null|nil|true|false|undefined|required|optional|string|str|text|pass|passed|password|passwort|secret|token"
    r"|hidden|masked|redacted|changed?|unknown|missing|empty|invalid|incorrect|wrong|expired|forgotten|reset|not|the"
    r"|an?|in|is|must|should|will|policy|set|protected|n/?a|int|bool|field|bytes?|your[-_ ].*|x+|:?[.*#:-]+"
    r"|user(?:name)?|value|val|auth|input|args?|options|function|split"
    r"|[a-z_.]*(?:password|passwd|pwd|secret|token)[a-z_.]*|[a-z_.]+\[.*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*"
    r"|[\[\]{(<&].*|\$[A-Za-z_]+|\$[({].*|%[A-Za-z({].*|(?:os|process|env|config|self|settings|getenv)\b.*|.*\(.*)[.:!?)]*"
)
"""What stands where a secret would: the name of a type, a word of a sentence, a variable, a blank."""
