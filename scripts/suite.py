"""Runs the entries of a build's ctest that have certain labels, and repeats late ones once, alone.

    suite.py BUILD LABELS JOBS TALLY [CTEST OPTIONS...]

BUILD is a folder below build/, LABELS a regular expression. Writes ctest's log to TALLY (tally.py reads it), with the
outcome of a repeated entry in place of its first one. Prints "flaky: NAME ..." for an entry that was late and passed
when it was repeated. late.py says what is late. The exit status is 0 if all entries passed in the end.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import late

ENTRY = re.compile(r"^\d+/\d+ Testing: (\S+)\n(?:.*\n)*?\"\1\" time elapsed: .*\n", re.M)
# End of the output of an entry, behind which its verdict stands.
END_OF_OUTPUT = "<end of output>\n"


def entries(log):
    """Returns what ctest's log says of each entry, by name.

    >>> entries('1/2 Testing: a\\nOutput:\\nx\\n<end of output>\\nTest Failed.\\n"a" time elapsed: 1\\n')["a"][-20:]
    '"a" time elapsed: 1\\n'
    """
    return {found[1]: found[0] for found in ENTRY.finditer(log)}


def repeated(first, again):
    """Returns one entry for both runs of it: the output of both, and the verdict of the second.

    >>> repeated("4 passed\\n<end of output>\\nTest Failed.\\n", "1 passed\\n<end of output>\\nTest Passed.\\n")
    '4 passed\\n1 passed\\n<end of output>\\nTest Passed.\\n'
    """
    return first.split(END_OF_OUTPUT)[0] + again.split("-" * 58 + "\n", 1)[-1]


def run_ctest(build, options, env=None):
    """Runs ctest, shows what it prints, and returns its status, what it printed, and its log."""
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", *options]
    printed = []
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env=env) as running:
        for line in running.stdout:
            print(line, end="", flush=True)
            printed.append(line)
    path = os.path.join(build, "Testing", "Temporary", "LastTest.log")
    with open(path, encoding="utf-8", errors="replace") as file:
        return running.returncode, "".join(printed), file.read()


def main():
    build, labels, jobs, tally, *options = sys.argv[1:]
    build = os.path.join("build", build)
    status, printed, log = run_ctest(build, ["--label-regex", f"^({labels})$", "--parallel", jobs, *options])
    found = entries(log)
    failed = set(re.findall(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*\*\*\*", printed, re.M))
    killed = set(re.findall(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*\*\*\*Timeout", printed, re.M))
    filters = {name: late.of_program(found.get(name, ""), name in killed) for name in sorted(failed)}
    passed = set()
    for name, tests in filters.items():
        if tests is None:
            continue
        print(f"\n{name}: late ({tests}); it runs once more, alone", flush=True)
        again, _, said = run_ctest(build, ["--tests-regex", f"^{re.escape(name)}$"],
                                   {**os.environ, "GTEST_FILTER": tests})
        if again == 0:
            passed.add(name)
        log = log.replace(found[name], repeated(found[name], entries(said)[name]))
    with open(tally, "w", encoding="utf-8") as file:
        file.write(log)
    for name in sorted(passed):
        print(f"flaky: {name} was late ({filters[name]}), and passed when it ran alone")
    return 0 if failed and failed == passed else status


if __name__ == "__main__":
    sys.exit(main())
