"""The errors of a template: those found when it is read, and those found when it is rendered.

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
        """The line of the mistake, from 1; 0 if it concerns the whole template."""
        return int(self.facts.get("line", 0))


class TemplateFailed(External):
    code = "template_error"
    audience = "programmer"


class TemplateUndefined(TemplateFailed):
    code = "template_undefined"


class TemplateLimit(TemplateFailed):
    code = "template_limit"
