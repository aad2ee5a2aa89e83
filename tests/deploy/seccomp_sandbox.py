"""Runs a command under a seccomp profile, as a container runtime would.

    seccomp_sandbox.py PROFILE.json COMMAND [ARGUMENT...]

The profile is the JSON that runtimes read. It is loaded through libseccomp, the library that the
runtimes use themselves, so a name it does not know or an argument it cannot compare is an error
here as it would be there.
"""

import ctypes
import ctypes.util
import json
import os
import sys

ACTIONS = {"SCMP_ACT_ALLOW": lambda rule: 0x7FFF0000,
           "SCMP_ACT_ERRNO": lambda rule: 0x00050000 | rule.get("errnoRet", 1)}
COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
UNKNOWN = -1  # __NR_SCMP_ERROR


class Comparison(ctypes.Structure):
    """struct scmp_arg_cmp."""
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int),
                ("datum_a", ctypes.c_uint64), ("datum_b", ctypes.c_uint64)]


def library():
    name = ctypes.util.find_library("seccomp")
    if name is None:
        return None
    lib = ctypes.CDLL(name, use_errno=True)
    lib.seccomp_init.restype = ctypes.c_void_p
    lib.seccomp_init.argtypes = [ctypes.c_uint32]
    lib.seccomp_load.argtypes = [ctypes.c_void_p]
    lib.seccomp_rule_add_array.argtypes = [
        ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p]
    return lib


def succeed(result, what):
    if result != 0:
        raise OSError(-result, f"{what}: {os.strerror(-result)}")


def load(profile):
    """Puts this process, and what it executes, under the profile. There is no way back."""
    lib = library()
    context = lib.seccomp_init(
        ACTIONS[profile["defaultAction"]]({"errnoRet": profile["defaultErrnoRet"]}))
    for rule in profile["syscalls"]:
        comparisons = [
            Comparison(a["index"], COMPARISONS[a["op"]], a["value"], a.get("valueTwo", 0))
            for a in rule.get("args", [])]
        array = (Comparison * len(comparisons))(*comparisons)
        for name in rule["names"]:
            number = lib.seccomp_syscall_resolve_name(name.encode())
            if number == UNKNOWN:
                raise ValueError(f"libseccomp knows no system call {name}")
            succeed(lib.seccomp_rule_add_array(
                context, ACTIONS[rule["action"]](rule), number, len(comparisons), array), name)
    succeed(lib.seccomp_load(context), "seccomp_load")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        profile = json.load(file)
    load(profile)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
