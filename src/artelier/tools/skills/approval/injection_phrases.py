"""Sentences that give orders to a model: what they want, and how they are usually worded.

Patterns see one spelling: lower case, single spaces, no emphasis. `[^.!?\\n]` stands for a gap inside one
sentence, and every gap has a bound, so that no text can make the search slow. What is common in honest
instructions stays out ("you must", "read the instructions in FORMS.md", "send the token in a header"): an
alarm that is always wrong teaches people to approve without looking.
"""

from __future__ import annotations

import re

_LAWS = (
    r"(?:instructions?|rules?|guidelines?|prompts?|directives?|polic(?:y|ies)|guardrails?|safety|restrictions?"
    r"|safeguards?)"
)
_SECRETS = (
    r"(?:system prompts?|hidden prompts?|api[ _-]?keys?|passwords?|passphrases?|secrets|credentials"
    r"|private keys?|ssh keys?|id_rsa|\.env\b|env(?:ironment)? variables|session cookies?"
    r"|conversation history|chat history|whole conversation|your (?:own )?instructions)"
)
_OWN = (
    r"(?:system prompts?|hidden prompts?|private keys?|ssh keys?|\.ssh\b|id_rsa|conversation history"
    r"|chat history|whole conversation|entire conversation|your (?:own )?instructions)"
)
_SHELL = r"(?:sudo )?(?:ba|z|da)?sh\b"

_ORDERS: tuple[tuple[str, str], ...] = (
    (
        "tries to override instructions",
        r"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?|neglect"
        r"|(?:do not|don't) (?:follow|obey)|stop (?:following|obeying))\b[^.!?\n]{0,60}?"
        r"\b(?:all|any|every|previous|prior|above|earlier|preceding|former|existing|original|system"
        r"|your|these|the|other)\b[^.!?\n]{0,40}?\b" + _LAWS + r"\b",
    ),
    (
        "tries to override instructions",
        r"\b(?:ignore|disregard|forget) (?:all|everything|anything) (?:of |that |the )?"
        r"(?:above|before|else|previous|prior|earlier|you|came|you've)\b",
    ),
    (
        "tries to override instructions",
        r"\b(?:new|updated|real|actual|true) (?:system )?(?:instructions?|system prompt|directives?)"
        r" *(?::|follow\b|are:)",
    ),
    (
        "tries to override instructions",
        r"\b(?:takes?|has|have) (?:precedence|priority) over\b[^.!?\n]{0,40}"
        r"\b(?:system|your|previous|other|all)\b[^.!?\n]{0,20}" + _LAWS,
    ),
    (
        "tries to override instructions",
        r"(?:ignorier\w{0,20}|vergiss|missachte)\b[^.!?\n]{0,40}\b(?:anweisungen|regeln|vorgaben)"
        r"|(?:ignora|olvida)\b[^.!?\n]{0,40}\b(?:instrucciones|reglas)"
        r"|(?:ignore[rz]?|oublie[rz]?)\b[^.!?\n]{0,40}\b(?:consignes|instructions|règles)"
        r"|(?:игнорируй|забудь)\w{0,20}\b[^.!?\n]{0,40}(?:инструкци|правил)"
        r"|(?:忽略|无视|忘记)[^。\n]{0,20}(?:指令|指示|规则|提示)",
    ),
    (
        "gives the model another role",
        r"\byou are (?:now|no longer)\b(?! (?:ready|done|able|set|connected|logged|signed|finished|in|on"
        r"|using|required|free|authenticated)\b)|\bfrom now on,? you\b"
        r"|\b(?:act|behave|respond) as (?:an? |the )?(?:unrestricted|unfiltered|uncensored|jailbroken"
        r"|dan|root|admin(?:istrator)?|developer mode|system)\b"
        r"|\bpretend (?:to be|that you|you)\b|\b(?:god|dan|jailbreak) mode\b|\bjailbreak",
    ),
    (
        "asks for secrets",
        # "never print passwords" is good advice
        r"(?<!never )(?<!not )(?<!don't )\b(?:reveal|print|show|output|repeat|send|leak|exfiltrate"
        r"|upload|post|disclose|expose|transmit|forward|dump|email|e-mail)\b[^.!?\n]{0,60}?\b" + _SECRETS,
    ),
    (
        "asks for secrets",
        r"(?<!never )(?<!not )(?<!don't )\b(?:read|cat|copy|include|append|echo|return|pass|paste|quote)\b"
        r"[^.!?\n]{0,60}?(?:\b|\.)" + _OWN,
    ),
    (
        "wants to be kept from people",
        r"\b(?:do not|don't|never|without) (?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|alert(?:ing)?"
        r"|notify(?:ing)?|warn(?:ing)?|reveal(?:ing)?)\b[^.!?\n]{0,40}?\b(?:the )?"
        r"(?:user|human|person|people|operator|anyone|anybody|developer|owner)\b"
        r"|\b(?:secretly|silently|covertly|stealthily)\b[^.!?\n]{0,40}\b(?:send|upload|post|transfer|forward"
        r"|call|execute|run|mail|copy)\b",
    ),
    (
        "wants to go around approvals",
        r"\b(?:skip|bypass|avoid|circumvent|disable|without (?:asking for|waiting for|requiring))\b"
        r"[^.!?\n]{0,30}\b(?:approvals?|permissions|safety checks?|guardrails?)\b|\bauto[- ]?approve",
    ),
    (
        "orders other tools about",
        r"\b(?:before|after|instead of|whenever|each time|every time)\b[^.!?\n]{0,30}"
        r"\b(?:using|calling|invoking|running)\b[^.!?\n]{0,30}"
        r"\b(?:any|other|another|every|all) (?:other )?tools?\b",
    ),
    ("orders other tools about", r"<important>|\bimportant ?: ?the assistant\b"),
    (
        "pipes a download into a shell",
        rf"\b(?:curl|wget)\b[^\n]{{0,200}}\| ?{_SHELL}|\b(?:iex|invoke-expression)\b"
        rf"|\bbase64 (?:-d|--decode)[^\n]{{0,80}}\| ?{_SHELL}",
    ),
)

# A sentence ends at a dot that a space follows: paths and names have dots too.
_GAP = r"(?:[^.!?\n]|\.(?=\S))"

ORDERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (reason, re.compile(pattern.replace(r"[^.!?\n]", _GAP))) for reason, pattern in _ORDERS
)
"""What a sentence wants, and a pattern that finds it."""
