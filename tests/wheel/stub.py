"""Facts of a stub and of the extension under it, in one form that can be compared.

Both become a dict of names: "Hit.block" -> the number of positional arguments that it takes and the
names of those that go by keyword; None for an attribute.
"""

import ast
import re

Facts = dict[str, tuple[int, tuple[str, ...]] | None]

# Attributes of every class or of pybind11's classes, and the buffer protocol, which Python shows since 3.12.
OF_EVERY_CLASS = {"__module__", "__doc__", "__new__", "__weakref__", "__dict__", "__hash__",
                  "__buffer__", "__release_buffer__"}


def of_stub(text: str) -> Facts:
    """Returns the names of a stub file, but not the private ones."""
    facts: Facts = {}
    for node in ast.parse(text).body:
        facts.update(_of_node(node, ""))
    return facts


def of_module(module) -> Facts:
    """Returns the names of a module that pybind11 made."""
    facts: Facts = {}
    for name, value in vars(module).items():
        if isinstance(value, type):
            facts[name] = None
            facts.update(_of_class(name, value))
        elif name == "__version__" or not name.startswith("_"):
            facts[name] = _of_object(value)
    return facts


def _of_class(name, made):
    for member, value in vars(made).items():
        said = _of_object(value)
        # A class that only C++ makes has an __init__ without a signature.
        if member in OF_EVERY_CLASS or member.startswith("_pybind11") or \
                (member == "__init__" and said is None):
            continue
        yield f"{name}.{member}", said


def _of_node(node, owner):
    if isinstance(node, ast.ClassDef):
        yield node.name, None
        for member in node.body:
            yield from _of_node(member, f"{node.name}.")
    elif isinstance(node, ast.FunctionDef) and node.name not in OF_EVERY_CLASS:
        yield owner + node.name, _of_arguments(node.args)
    elif isinstance(node, ast.AnnAssign) and node.target.id.strip("_")[:1].islower():
        yield owner + node.target.id, None


def _of_arguments(arguments):
    return (len(arguments.posonlyargs) + len(arguments.args),
            tuple(sorted(argument.arg for argument in arguments.kwonlyargs)))


def _of_object(value):
    """Reads the signature that pybind11 puts in front of a docstring, in Python's own syntax."""
    signature = re.match(r"\w+\((.*)\)(?: -> .*)?$", (value.__doc__ or "").split("\n")[0])
    if signature is None or not callable(value):
        return None
    parsed = ast.parse(f"def f({signature[1]}): ...").body[0]
    return _of_arguments(parsed.args)
