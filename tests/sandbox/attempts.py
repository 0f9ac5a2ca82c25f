"""Hostile code: what it tries, and how it must end.

`ESCAPES` try to reach the host (files, environment, processes, network, interpreter internals); each must
be refused or give the value that `HARMLESS` lists, which holds nothing of the host. `BOMBS` try to exhaust
something; each must be stopped for one of its reasons. `{canary}` is the path of a file that code must
never read or change.
"""

from __future__ import annotations

from typing import NamedTuple


class Attempt(NamedTuple):
    name: str
    code: str


ESCAPES: tuple[Attempt, ...] = tuple(
    Attempt(name, code)
    for name, code in {
        # Files
        "open": "open('{canary}').read()",
        "open-bytes": "open('{canary}', 'rb').read()",
        "open-write": "open('{canary}', 'w').write('x')",
        "open-append": "open('{canary}', 'a').write('x')",
        "open-fd": "open(0).read()",
        "open-relative": "open('../../../../../../../../{canary}').read()",
        "open-proc": "open('/proc/self/environ').read()",
        "open-mem": "open('/proc/self/mem', 'rb').read(10)",
        "with-open": "with open('{canary}') as f:\n    r = f.read()\nr",
        "io-open": "import io\nio.open('{canary}').read()",
        "path-read": "from pathlib import Path\nPath('{canary}').read_text()",
        "path-write": "from pathlib import Path\nPath('{canary}').write_text('x')",
        "path-unlink": "from pathlib import Path\nPath('{canary}').unlink()",
        "path-glob": "from pathlib import Path\n[str(p) for p in Path('/').iterdir()]",
        "path-exists": "from pathlib import Path\nPath('{canary}').exists()",
        "path-home": "from pathlib import Path\nstr(Path.home())",
        "path-resolve": "from pathlib import Path\nstr(Path('.').resolve())",
        "os-listdir": "import os\nos.listdir('/')",
        "os-remove": "import os\nos.remove('{canary}')",
        "os-rename": "import os\nos.rename('{canary}', '{canary}.x')",
        "os-stat": "import os\nos.stat('{canary}').st_size",
        "os-path-exists": "import os\nos.path.exists('{canary}')",
        "os-symlink": "import os\nos.symlink('{canary}', '/tmp/link')",
        "os-chdir": "import os\nos.chdir('/tmp')\nos.listdir('.')",
        "linecache": "import linecache\nlinecache.getlines('{canary}')",
        "tempfile": "import tempfile\ntempfile.NamedTemporaryFile().name",
        "shutil": "import shutil\nshutil.copy('{canary}', '/tmp/x')",
        "sqlite": "import sqlite3\nsqlite3.connect('{canary}')",
        "csv-of-file": "import csv\nlist(csv.reader(open('{canary}')))",
        # Environment and process
        "environ": "import os\ndict(os.environ)",
        "environ-get": "import os\nos.environ['ARTELIER_CANARY']",
        "getenv": "import os\nos.getenv('ARTELIER_CANARY')",
        "getpid": "import os\nos.getpid()",
        "system": "import os\nos.system('touch {canary}.owned')",
        "popen": "import os\nos.popen('id').read()",
        "fork": "import os\nos.fork()",
        "exec-family": "import os\nos.execv('/bin/sh', ['sh'])",
        "kill": "import os\nos.kill(1, 9)",
        "subprocess": "import subprocess\nsubprocess.run(['id'])",
        "ctypes": "import ctypes\nctypes.CDLL(None).system(b'id')",
        "signal": "import signal\nsignal.alarm(0)",
        "multiprocessing": "import multiprocessing\nmultiprocessing.Process(target=print).start()",
        "threading": "import threading\nthreading.Thread(target=print).start()",
        "sys-exit": "import sys\nsys.exit(3)",
        "system-exit": "raise SystemExit(3)",
        "keyboard-interrupt": "raise KeyboardInterrupt",
        "os-abort": "import os\nos.abort()",
        "os-exit": "import os\nos._exit(3)",
        "sys-modules": "import sys\nlist(sys.modules)",
        "sys-path": "import sys\nsys.path",
        "sys-argv": "import sys\nsys.argv",
        "sys-executable": "import sys\nsys.executable",
        "sys-getframe": "import sys\nsys._getframe().f_back",
        "sys-stdin": "import sys\nsys.stdin.read()",
        "sys-settrace": "import sys\nsys.settrace(print)",
        # Network
        "socket": "import socket\nsocket.create_connection(('127.0.0.1', 22))",
        "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1/')",
        "http": "import http.client\nhttp.client.HTTPConnection('127.0.0.1')",
        "asyncio-net": "import asyncio\nawait asyncio.open_connection('127.0.0.1', 22)",
        "asyncio-shell": "import asyncio\nawait asyncio.create_subprocess_shell('id')",
        # Reaching the interpreter through objects
        "subclasses": "().__class__.__bases__[0].__subclasses__()",
        "mro": "''.__class__.__mro__[1].__subclasses__()",
        "base": "(1).__class__.__base__",
        "type-mro": "type(1).__mro__",
        "type-subclasses": "type.__subclasses__(object)",
        "function-globals": "def f(): pass\nf.__globals__",
        "function-code": "def f(): pass\nf.__code__",
        "code-replace": "def f(): pass\nf.__code__ = (lambda: 1).__code__",
        "lambda-closure": "(lambda: 1).__closure__",
        "builtins-name": "__builtins__",
        "builtins-module": "import builtins\nbuiltins.open('{canary}')",
        "print-self": "print.__self__",
        "len-module": "len.__module__",
        "import-dunder": "__import__('os').system('id')",
        "importlib": "import importlib\nimportlib.import_module('os')",
        "loader": "__loader__",
        "spec-loader": "__spec__.loader",
        "eval-import": "eval(\"__import__('os')\")",
        "eval-open": "eval(\"open('{canary}').read()\")",
        "exec-open": "exec(\"x = open('{canary}').read()\")\nx",
        "exec-globals": "exec('x = 1', {{'__builtins__': None}})\nopen('{canary}')",
        "compile": "eval(compile(\"open('{canary}').read()\", '', 'eval'))",
        "globals": "globals()['__builtins__']",
        "locals": "locals()['__builtins__']",
        "vars": "vars()['__builtins__']",
        "getattr-chain": "getattr(getattr((), '__cl' + 'ass__'), '__ba' + 'ses__')",
        "getattr-open": "getattr(__builtins__, 'open')('{canary}')",
        "attribute-by-setattr": "setattr(1, '__class__', str)",
        "type-three": "type('A', (object,), {{}})",
        "metaclass": "class A(metaclass=type): pass",
        "subclass-str": "class A(str): pass",
        "dunder-reduce": "class A:\n    def __reduce__(self): return (open, ('{canary}',))\nA()",
        "dunder-del": "class A:\n    def __del__(self): open('{canary}')\nA()\n1/0",
        "dunder-getattribute": "class A:\n    x = 1\nobject.__getattribute__(A(), '__class__')",
        "traceback-frame": "try:\n    1/0\nexcept Exception as e:\n    r = e.__traceback__.tb_frame\nr",
        "exception-context": "try:\n    1/0\nexcept Exception as e:\n    r = e.__context__.__class__\nr",
        "generator-frame": "(x for x in [1]).gi_frame",
        "coroutine-frame": "async def f(): pass\nf().cr_frame.f_globals",
        "gc": "import gc\ngc.get_objects()",
        "inspect": "import inspect\ninspect.currentframe()",
        "pickle": "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'id'\\ntR.\")",
        "marshal": "import marshal\nmarshal.loads(b'')",
        "codecs": "import codecs\ncodecs.open('{canary}')",
        "weakref": "import weakref\nweakref.ref(int)",
        # Formatting
        "format-class": "'{{0.__class__.__mro__}}'.format(1)",
        "format-globals": "def f(): pass\n'{{0.__globals__}}'.format(f)",
        "format-map": "'{{a.__init__.__globals__}}'.format_map({{'a': print}})",
        "percent-class": "'%(__class__)s' % {{}}",
        "fstring-import": "f\"{{__import__('os')}}\"",
        "format-builtin": "format(open, '')",
        # Host functions
        "helper-globals": "helper.__globals__",
        "helper-module": "helper.__module__",
        "helper-self": "helper.__self__",
        "helper-replace": "helper = open\nhelper('{canary}')",
        "helper-object": "helper(open)",
        "helper-class": "helper(type)",
        "helper-lambda-arg": "helper(x=lambda: open('{canary}'))",
        "os-by-helper-name": "import os\nos.system = helper\nos.system('id')",
        "input": "input()",
        "breakpoint": "breakpoint()",
        "random-urandom": "import os\nos.urandom(8)",
    }.items()
)

HARMLESS: dict[str, object] = {
    "sys-argv": ["main.py"],
    "sys-executable": "",
    "format-builtin": "<built-in function open>",
}

_SHARED = "a = (1,)\nfor i in range(60): a = (a, a)\n"
"""A small value that is immense to whoever does not see that its parts are shared."""

BOMBS: tuple[tuple[Attempt, str], ...] = tuple(
    (Attempt(name, code), reasons)
    for name, (code, reasons) in {
        "loop": ("while True: pass", "timeout"),
        "loop-bare-except": (
            "while True:\n    try:\n        while True: pass\n    except:\n        pass",
            "timeout",
        ),
        "loop-finally": ("try:\n    while True: pass\nfinally:\n    while True: pass", "timeout"),
        "loop-base-exception": (
            "def f():\n    try:\n        while True: pass\n    except BaseException:\n        return 1\nf()",
            "timeout",
        ),
        "loop-with-exit": (
            "class A:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n"
            "while True:\n    with A():\n        while True: pass",
            "timeout",
        ),
        "loop-in-comprehension": ("sum([1 for a in range(10**9) if a < 0])", "timeout memory"),
        "loop-in-sort-key": ("sorted(range(10**5), key=lambda x: sum(range(10**5)))", "timeout"),
        "loop-in-eval": ("eval('[0 for a in range(10**9) if a < 0]')", "timeout memory"),
        "loop-in-repr": (
            "class A:\n    def __repr__(self):\n        while True: pass\nrepr(A())",
            "timeout",
        ),
        "loop-in-eq": (
            "class A:\n    def __eq__(self, o):\n        while True: pass\n[A()] == [A()]",
            "timeout",
        ),
        "loop-lookups": (
            "while True:\n    try:\n        nothing\n    except:\n        pass",
            "error",
        ),
        "loop-helper": (
            "while True:\n    try:\n        helper()\n    except:\n        pass",
            "error",
        ),
        "loop-os-calls": (
            "import os\nwhile True:\n    try:\n        os.getenv('x')\n    except:\n        pass",
            "error",
        ),
        "loop-sleep": ("import time\nwhile True:\n    time.sleep(10)", "error timeout"),
        "loop-async-sleep": (
            "import asyncio\nwhile True:\n    await asyncio.sleep(10)",
            "error timeout",
        ),
        "loop-iterator": ("import itertools\nlist(itertools.count())", "timeout memory"),
        "loop-cycle": ("import itertools\nfor _ in itertools.cycle([1]): pass", "timeout"),
        "loop-random": ("import random\nwhile True: random.random()", "timeout"),
        "regex-backtracking": (
            "import re\nfor i in range(10**6): re.match(r'(a+)+$', 'a' * 200 + 'b')",
            "timeout error",
        ),
        "recursion": ("def f(): return f()\nf()", "error"),
        "recursion-mutual": ("def f(): return g()\ndef g(): return f()\nf()", "error"),
        "recursion-repr": (
            "class A:\n    def __repr__(self): return repr(self)\nrepr(A())",
            "error",
        ),
        "recursion-caught": (
            "def f():\n    try:\n        f()\n    except RecursionError:\n        f()\nf()",
            "timeout error",
        ),
        "recursion-lambda": ("(lambda f: f(f))(lambda f: f(f))", "error"),
        "recursion-sort": ("def f(x): return sorted([1, 2], key=f)\nf(1)", "error"),
        "memory-list": ("x = []\nwhile True: x.append('a' * 1000)", "memory"),
        "memory-caught": (
            "x = []\nwhile True:\n    try:\n        x.append('a' * 10**6)\n    except:\n        pass",
            "memory",
        ),
        "memory-string": ("'a' * 10**10", "memory"),
        "memory-list-repeat": ("[0] * 10**10", "memory"),
        "memory-tuple-repeat": ("(0,) * 10**10", "memory"),
        "memory-bytes": ("bytes(10**11)", "memory"),
        "memory-bytearray": ("bytearray(10**11)", "memory error"),
        "memory-doubling": ("x = 'a'\nwhile True: x += x", "memory"),
        "memory-list-doubling": ("x = [0]\nwhile True: x = x + x", "memory"),
        "memory-dict": ("x = {}\ni = 0\nwhile True:\n    x[i] = 'v' * 500\n    i += 1", "memory"),
        "memory-set": (
            "x = set()\ni = 0\nwhile True:\n    x.add(str(i) * 50)\n    i += 1",
            "memory",
        ),
        "memory-range": ("list(range(10**9))", "memory"),
        "memory-replace": ("('a' * 10**5).replace('a', 'b' * 10**5)", "memory"),
        "memory-join": ("('b' * 10**5).join(['a'] * 10**5)", "memory"),
        "memory-format-width": ("'{:>9999999999}'.format(1)", "memory error"),
        "memory-fstring-width": ("f'{1:>9999999999}'", "memory error syntax"),
        "memory-percent-width": ("'%9999999999d' % 1", "memory error"),
        "memory-zfill": ("'1'.zfill(10**10)", "memory"),
        "memory-center": ("'1'.center(10**10)", "memory"),
        "memory-precision": ("f'{1.0:.999999999f}'", "memory error"),
        "memory-closures": (
            "def f(x): return lambda: x\nx = 0\nwhile True: x = f(x)",
            "memory",
        ),
        "memory-deque": (
            "from collections import deque\nd = deque()\nwhile True: d.append('x' * 99)",
            "memory",
        ),
        "memory-json": (
            "import json\nx = []\nfor i in range(60): x = [x, x]\njson.dumps(x)",
            "memory timeout error",
        ),
        "memory-product": (
            "import itertools\nlist(itertools.product(range(100), repeat=6))",
            "memory timeout",
        ),
        "huge-power": ("10 ** 10 ** 10", "memory error"),
        "huge-power-tower": ("9 ** 9 ** 9 ** 9", "memory error"),
        "huge-shift": ("1 << 10 ** 12", "memory error"),
        "huge-factorial": ("import math\nmath.factorial(10 ** 9)", "memory error timeout"),
        "huge-comb": ("import math\nmath.comb(10 ** 9, 5 * 10 ** 8)", "memory error timeout"),
        "huge-squaring": ("x = 3 ** 1000\nwhile True: x = x * x", "memory timeout"),
        "huge-pow-mod": ("pow(7, 10 ** 40000, 10 ** 40000 + 1)", "timeout memory error"),
        "huge-int-text": ("str(7 ** 300000)", "error"),
        "huge-int-parse": ("int('9' * 10 ** 6)", "error"),
        "huge-int-result": ("2 ** 70", "output"),
        "huge-decimal": (
            "from decimal import Decimal\nDecimal(10) ** Decimal(10 ** 17)",
            "error memory timeout output",
        ),
        "output-print": ("while True: print('x' * 1000)", "output"),
        "output-print-once": ("print('x' * 10 ** 6)", "output"),
        "output-stderr": ("import sys\nwhile True: print('x' * 1000, file=sys.stderr)", "output"),
        "output-value": ("'x' * 10 ** 6", "output"),
        "output-list": ("list(range(10 ** 5))", "output"),
        "output-unfolding": ("x = 'a' * 100\nfor i in range(24): x = [x, x]\nx", "output memory"),
        "output-nested": ("x = []\nfor i in range(150): x = [x]\nx", "output"),
        "output-helper": ("helper('x' * 10 ** 6)", "error"),
        "exception-text": ("raise ValueError('x' * 10 ** 6)", "error"),
        "exception-name": ("x = {}\nx['y' * 10 ** 6]", "error"),
        "parser-brackets": ("(" * 30_000, "syntax"),
        "parser-lists": ("[" * 15_000 + "]" * 15_000, "syntax"),
        "parser-not": ("x = " + "not " * 7_000 + "1", "syntax"),
        "parser-minus": ("x = " + "-" * 30_000 + "1", "syntax"),
        "parser-attributes": ("x" + ".a" * 15_000, "syntax error"),
        "parser-calls": ("f" + "()" * 15_000, "syntax error"),
        "parser-plus": ("x = " + "1+" * 15_000 + "1", "syntax"),
        "parser-power": ("x = " + "2**" * 10_000 + "1", "syntax"),
        "parser-lambda": ("x = " + "lambda: " * 4_000 + "1", "syntax"),
        "parser-indent": ("".join(" " * i + "if 1:\n" for i in range(240)), "syntax"),
        "parser-finally": (
            "try:\n pass\nfinally:\n pass\n" * 1_000 + "while True: pass",
            "timeout memory syntax",
        ),
        "parser-fstring": ("f'" + '{f"' * 500 + "'", "syntax"),
        "parser-comprehension": ("[0 " + "for a in b " * 2_500 + "]", "syntax unsupported error"),
        "parser-digits": ("x = " + "9" * 30_000 + "\nx", "syntax output error"),
        "parser-names": (
            "\n".join(f"v{i} = {i}" for i in range(2_400)) + "\nwhile True: pass",
            "timeout memory",
        ),
        # What would be costly to turn into values of the host, which is done while nothing else runs
        "shared-tuple-key": (_SHARED + "{a: 1}", "output"),
        "shared-tuple-key-deep": (_SHARED + "[{'x': ({a: 1},)}]", "output"),
        "shared-tuple-set": (_SHARED + "{a}", "output"),
        "shared-tuple-frozenset": (_SHARED + "frozenset([a])", "output"),
        "shared-tuple-counter": (
            _SHARED + "import collections\ncollections.Counter([a])",
            "output",
        ),
        "shared-tuple-class": (_SHARED + "class C: pass\nc = C()\nc.x = {a: 1}\nc", "output"),
        "shared-tuple": (_SHARED + "a", "timeout memory"),
        "shared-tuple-argument": (_SHARED + "helper({a: 1})", "error"),
        "shared-tuple-keyword": (_SHARED + "helper(x={a})", "error"),
        "shared-tuple-plain-argument": (_SHARED + "helper(a)", "timeout memory"),
        "shared-tuple-unknown-name": (_SHARED + "nosuch({a: 1})", "error"),
        "shared-tuple-raw-host": (_SHARED + "__artelier_host('value', {a: 1})", "error"),
        "shared-tuple-raw-host-named": (
            _SHARED + "h = __artelier_host\nh('helper', ({a: 1},), {})",
            "error",
        ),
        "shared-tuple-own-check": (
            _SHARED + "dumps = __artelier_dumps = lambda v: ''\n{a: 1}",
            "output",
        ),
        "shared-tuple-own-words": (
            _SHARED + "class type:\n    def __init__(self, v): self.__name__ = {a: 1}\n{a: 1}",
            "output error",
        ),
        "shared-tuple-own-exec": (
            _SHARED + "def exec(text):\n    global __artelier_dumps, __artelier_why\n"
            "    __artelier_dumps = lambda v: ''\n    __artelier_why = lambda *v: {a: 1}\n{a: 1}",
            "error",
        ),
        "shared-tuple-own-type": (
            _SHARED + "def type(v):\n    global __artelier_dumps, __artelier_value\n"
            "    __artelier_dumps = lambda v: ''\n    __artelier_value = {a: 1}\n{a: 1}",
            "output",
        ),
        "shared-tuple-own-wrapper": (_SHARED + "__artelier_wrap({a: 1})()", "error"),
        "shared-tuple-joined": (_SHARED + "{a: 1} or \\", "syntax"),
        "shared-tuple-joined-open": (_SHARED + "({a: 1}, ", "syntax"),
        "shared-tuple-raised": (_SHARED + "raise ValueError({a: 1})", "error"),
        "shared-tuple-environ": (_SHARED + "import os\nos.getenv('x', {a: 1})", "error"),
        "shared-tuple-method": (_SHARED + "import os\nos.nosuch({a: 1})", "error"),
        "shared-tuple-exec": (_SHARED + "exec('__artelier_host({a: 1})')", "error"),
        "shared-tuple-sleep": (
            _SHARED + "import asyncio\nawait asyncio.sleep(1, {a: 1})",
            "output",
        ),
        # What would be costly to read
        "parser-fstring-pieces": ("f'" + "{1}" * 9_000 + "'", "unsupported"),
        "parser-marks": ("x" + "\u0301\u0316" * 7_000 + " = 1", "unsupported"),
        "parser-too-long": ("#" * 300_000, "unsupported"),
        "json-nested": ("import json\njson.loads('[' * 10 ** 5)", "error"),
        "toml-nested": ("import tomllib\ntomllib.loads('a = ' + '[' * 10 ** 5)", "error"),
        "eval-nested": (
            "s = '1'\nfor i in range(40): s = 'eval(%r)' % s\neval(s)",
            "memory error timeout",
        ),
        "hash-pbkdf2": (
            "import hashlib\nhashlib.pbkdf2_hmac('sha256', b'x', b'y', 10 ** 9)",
            "timeout error",
        ),
    }.items()
)
