"""Tells which failed tests were only late: tests that waited for a process or a thread in vain.

On a machine that others load too, such a test is repeated once, alone. A wrong byte or any other failed
comparison is never repeated, so a test is late only if each of its failures is a wait that ran out:

* of GoogleTest, a failure of an Await...() or Eventually() behind its line ("[  LATE    ] ..."), or
  one whose own text, without the log lines that follow, shows a status DEADLINE_EXCEEDED;
* of unittest, an error that names no exception but TimeoutError and TimeoutExpired.

>>> run, late = "[ RUN      ] A.b\\n%s[  FAILED  ] A.b (7 ms)\\n", "[  LATE    ] x.cc:7: waited 20s in vain\\n"
>>> of_gtest(run % (late + "x.cc:7: Failure\\nValue of: Await(...)\\n"))
['A.b']
>>> of_gtest(run % "x.cc:7: Failure\\nDEADLINE_EXCEEDED: agent: no answer\\n")
['A.b']
>>> of_gtest(run % (late + "x.cc:7: Failure\\nValue of: Await(...)\\nx.cc:9: Failure\\nExpected: 1\\n"))
>>> of_gtest(run % "x.cc:7: Failure\\nDATA_LOSS: block 7, not DEADLINE_EXCEEDED\\n")
>>> of_gtest(run % "x.cc:7: Failure\\nExpected: (a) <= (b), actual: 2 vs 1\\nW 7.5 x: DEADLINE_EXCEEDED: no answer\\n")
>>> of_gtest(run % (late + "x.cc:9: Failure\\nExpected equality of these bytes\\n"))  # It expected to wait in vain.
>>> of_gtest(run % "it failed without a word\\n")
>>> of_gtest("[ RUN      ] A.b\\nx.cc:7: Failure\\nExpected: 1\\n")  # Then it hung, and was killed.
>>> of_gtest("[ RUN      ] A.b\\nit hung, and was killed\\n")
[]
>>> error = "=====\\nERROR: test_a (b.C.test_a)\\n-----\\nTraceback (most recent call last):\\n  x\\n%s: x\\n\\n"
>>> of_unittest(error % "TimeoutError")
True
>>> of_unittest(error % "subprocess.TimeoutExpired")
True
>>> of_unittest(error % "TimeoutError" + error % "AssertionError")
False
>>> of_unittest(error % "TimeoutError: x\\n\\nDuring handling of the above exception, another:\\n\\nAssertionError")
False
>>> of_unittest("Segmentation fault\\n")
False
"""

import re

LATE = "[  LATE    ]"
WAITED = re.compile(r"\bDEADLINE_EXCEEDED\b")
WRONG = re.compile(r"\bDATA_LOSS\b")
LOGGED = re.compile(r"^(?:[IWEF] \d+\.\d+ |--- ).*", re.M | re.S)  # From the first log line on.
WAIT = re.compile(r"^Value of: .*\b(?:Await\w*|Eventually)\(", re.M)
BLOCK = re.compile(r"^=+\n(?:ERROR|FAIL): .*\n-+\n((?:(?!=+$|-+$).*\n)*)", re.M)
EXCEPTION = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Expired|Exception|Exit|Interrupt|Warning))\b", re.M)
TIME_OUTS = {"TimeoutError", "TimeoutExpired"}


def _failures(lines):
    """Yields for each failure in the lines of one test whether it is a wait that ran out."""
    waited, block = False, None
    for line in [*lines, "x:0: Failure"]:
        if line.startswith(LATE):
            waited = True
        elif re.search(r":\d+: Failure$", line):
            if block is not None:
                text = LOGGED.sub("", "\n".join(block[1:]))
                awaited = block[0] and WAIT.search(text) is not None
                yield awaited or (WAITED.search(text) is not None and WRONG.search(text) is None)
            block, waited = [waited], False
        elif block is not None:
            block.append(line)


def of_gtest(output):
    """Returns the names of the tests that failed, if all of them were late; else None. The list is empty where none
    failed, as in the output of a program that hung."""
    names = []
    for name, text in re.findall(r"^\[ RUN      \] (\S+)\n((?:(?!\[ RUN ).*\n)*)", output, re.M):
        lines = text.splitlines()
        failures = list(_failures(lines))
        has_failed = any(line.startswith(f"[  FAILED  ] {name}") for line in lines)
        if (has_failed or failures) and not (failures and all(failures)):
            return None
        if has_failed:
            names.append(name)
    return names


def of_unittest(output):
    """Returns whether tests of unittest failed and all of them were late."""
    named = [set(EXCEPTION.findall(block)) for block in BLOCK.findall(output)]
    return bool(named) and all(names and names <= TIME_OUTS for names in named)


def of_program(output, was_killed):
    """Returns a filter for GTEST_FILTER with the tests to repeat ("*": all of them), or None if nothing may be
    repeated. `was_killed`: the program's own limit of time ended it."""
    if of_unittest(output):
        return "*"
    names = of_gtest(output)
    if names is None or (not names and not was_killed):
        return None
    return "*" if was_killed else ":".join(names)
