"""Runs every test_*.py of a folder, several at a time, each in a process of its own, and repeats late ones once, alone.

    unittests.py FOLDER PYTHON JOBS

Prints the output of each in one piece, and "flaky: FILE ..." for a file that was late and passed when it was repeated.
late.py says what is late; a process that takes longer than its limit is, too. The exit status is 0 if all passed in
the end.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import late

LIMIT_S = 900


def run(python, file):
    """Returns whether the tests of the file passed, whether they were late, and what they printed."""
    command = [python, "-W", "error::ResourceWarning", "-m", "unittest", "discover", "--start-directory",
               str(file.parent), "--pattern", file.name]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as expired:
        said = (expired.stdout or b"").decode(errors="replace")
        return False, late.of_gtest(said) is not None, f"{said}\nkilled after {LIMIT_S} s\n"
    return done.returncode == 0, late.of_unittest(done.stdout), done.stdout


def main():
    folder, python, jobs = sys.argv[1:]
    files = sorted(pathlib.Path(folder).glob("test_*.py"))
    again, failed = [], not files
    with concurrent.futures.ThreadPoolExecutor(int(jobs)) as pool:
        for file, (passed, was_late, said) in zip(files, pool.map(lambda file: run(python, file), files)):
            if not passed and was_late:
                # Shown without the counts, since those of the second run count.
                print(f"{file.name}: late; it runs once more, alone\n{said.rsplit('Ran ', 1)[0]}", flush=True)
                again.append(file)
                continue
            print(f"{file.name}:\n{said}", flush=True)
            failed = failed or not passed
    for file in again:
        passed, _, said = run(python, file)
        print(f"{file.name}:\n{said}")
        if passed:
            print(f"flaky: {file} was late, and passed when it ran alone")
        failed = failed or not passed
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
