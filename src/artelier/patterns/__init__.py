"""Regular expressions of others: what one may cost is bounded before it is compiled and while it runs.

Start with `pattern.py`; decision 0033 says which engine gets which pattern, and why.
"""

from artelier.patterns.regex import Allowance, Dialect, Pattern, check_pattern, compile_pattern
from artelier.patterns.regex_syntax import size_of

__all__ = ["Allowance", "Dialect", "Pattern", "check_pattern", "compile_pattern", "size_of"]
