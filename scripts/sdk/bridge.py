"""Answers for one provider file in Python: a JSON object a line in, a JSON object a line out.

The provider file has `sdk` (made by `installed`), `secret` and the like, `tolerance`, and the functions
`sign(asked) -> headers or (headers, body)` and `verify(request, keys) -> bool`; bodies are bytes.
"""

import base64
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import sys
import types

import time_machine

HERE = pathlib.Path(__file__).parent


def installed(name):
    """`pypi:NAME@VERSION` of a package as it is installed."""
    return f"pypi:{name}@{importlib.metadata.version(name)}"


def load(name):
    helpers = types.ModuleType("frame")
    helpers.installed = installed
    sys.modules["frame"] = helpers
    spec = importlib.util.spec_from_file_location("provider", HERE / "providers" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(value):
    return isinstance(value, (str, int, float, bool, list, dict, type(None)))


def with_body(given):
    given["body"] = base64.b64decode(given.pop("body_b64"))
    return given


def verdict(provider, request, keys):
    with time_machine.travel(keys["now"], tick=False):
        try:
            return provider.verify(request, keys) is True
        except Exception as error:
            if os.environ.get("SDK_ERRORS"):
                print(repr(error), file=sys.stderr)
            return False


def answer(provider, question):
    match question["ask"]:
        case "exports":
            return {"exports": {k: v for k, v in vars(provider).items() if not k.startswith("_") and plain(v)}}
        case "sign":
            made = provider.sign(with_body(question["asked"]))
            if isinstance(made, tuple):
                return {"headers": made[0], "body_b64": base64.b64encode(made[1]).decode()}
            return {"headers": made}
        case "verify":
            return {"valid": verdict(provider, with_body(question["request"]), question["keys"])}


def main():
    # What an SDK prints must not be taken for an answer.
    out, sys.stdout = sys.stdout, sys.stderr
    provider = load(sys.argv[1])
    for line in sys.stdin:
        try:
            said = answer(provider, json.loads(line))
        except Exception as error:
            said = {"error": repr(error)}
        print(json.dumps(said), file=out, flush=True)


main()
