"""Prints, as JSON, the interface of KV connectors in an unpacked vLLM: names and parameters, read without an import.

    python3 dump_signatures.py VERSION FOLDER >signatures/VERSION.json

FOLDER has vllm/, as a wheel does when it is unpacked.
"""

import ast
import json
import sys
from pathlib import Path

CLASSES = {"base.py": ("KVConnectorBase_V1", "SupportsHMA"), "metrics.py": ("KVConnectorStats", "KVConnectorPromMetrics")}
_KINDS = ("abstractmethod", "property", "classmethod")


def methods(tree, name):
    """Returns, for each method of class `name`, its parameters, which have a default, and what it is."""
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {method.name: describe(method) for method in found.body if isinstance(method, ast.FunctionDef)
            if not method.name.startswith("_") or method.name == "__init__"}


def describe(method):
    arguments = method.args.posonlyargs + method.args.args
    names = [argument.arg for argument in arguments]
    kinds = {node.id if isinstance(node, ast.Name) else getattr(node, "attr", "") for node in method.decorator_list}
    return {"parameters": names, "with_default": names[len(names) - len(method.args.defaults):],
            **{kind: True for kind in _KINDS if kind in kinds}}


def dump(version, folder):
    """Returns the interface of this version."""
    source = Path(folder) / "vllm/distributed/kv_transfer/kv_connector/v1"
    interface = {}
    for file, names in CLASSES.items():
        tree = ast.parse((source / file).read_text(encoding="utf-8"))
        interface.update({name: methods(tree, name) for name in names})
    return {"version": version, "classes": interface}


if __name__ == "__main__":
    json.dump(dump(*sys.argv[1:3]), sys.stdout, indent=1, sort_keys=True)
    print()
