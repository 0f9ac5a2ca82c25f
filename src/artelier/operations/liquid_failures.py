"""What can be wrong with a template: when it is read, and when it is rendered.

    InvalidRequest ── InvalidTemplate       it can't be read; fact `line`, counted from 1
    External ──────── TemplateFailed        rendering ended early; code `template_error`
                      ├── TemplateUndefined     a name has no value, in strict mode
                      └── TemplateLimit         a bound was reached

Messages name the template's own words, never a value of the scope: values may be secret.
"""

from __future__ import annotations

from artelier.errors import External, InvalidRequest


class InvalidTemplate(InvalidRequest):
    code = "invalid_template"

    @property
    def line(self) -> int:
        """Where the template goes wrong, from 1; 0 if it is about the whole."""
        return int(self.facts.get("line", 0))


class TemplateFailed(External):
    code = "template_error"
    audience = "programmer"


class TemplateUndefined(TemplateFailed):
    code = "template_undefined"


class TemplateLimit(TemplateFailed):
    code = "template_limit"
