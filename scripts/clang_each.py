"""Runs a clang command on source files with the flags of a compilation database.

    clang_each.py DATABASE [--jobs N] [--mentioning PATTERN] [--not-in BUILD] -- clang++-19 ... < names of files
    clang_each.py DATABASE [--jobs N] --flags-last -- clang-tidy-19 ... < names of files
    clang_each.py DATABASE        lists the source files that the database compiles

With --mentioning, runs only on files that mention PATTERN themselves or in a header of ours that they
include by name. With --not-in BUILD, leaves out the files that ninja compiles there by default. Keeps include paths, macros and the language standard of each file's own command;
drops the other flags, which are another compiler's. Prints clang's output; the exit status is 0 when it
says nothing.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

WITH_VALUE = ("-I", "-isystem", "-D", "-U", "-include")


def kept_flags(command):
    """Returns the flags of a compile command that say what the source means.

    >>> kept_flags("ccache c++ -DX=1 -I/a -isystem /b -O2 -std=c++20 -fsanitize=address -o x -c y")
    ['-DX=1', '-I/a', '-isystem', '/b', '-std=c++20']
    """
    kept, words = [], iter(shlex.split(command))
    for word in words:
        if word in WITH_VALUE:
            kept += [word, next(words)]
        elif word.startswith(WITH_VALUE) or word.startswith("-std="):
            kept.append(word)
    return kept


def sources_of(file):
    """Returns the files that compiling a file compiles: itself, or the files that it joins
    (kvtier_join(), tests/one_unit), which its #line or #include lines name."""
    path = os.path.realpath(file)
    if os.path.exists(path):
        joined = re.findall(r'^#(?:line 1|include) "([^"]+\.cc)"$', text_of(path), re.M)
        if joined:
            return [os.path.realpath(one) for one in joined]
    return [path]


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def mentions(path, pattern):
    """Returns whether a file, or one that it includes by its path from the root, matches `pattern`."""
    text = text_of(path)
    included = re.findall(r'^#include "([^"]+)"', text, re.M)
    return any(re.search(pattern, one) for one in
               [text, *(text_of(header) for header in included if os.path.exists(header))])


def compiled_in(build):
    """Returns the files that ninja compiles by default in the folder of a build."""
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "all"], check=True, capture_output=True,
                              text=True).stdout
    return {source for file in re.findall(r" -c (\S+\.cc|\S+\.cxx)$", commands, re.M)
            for source in sources_of(os.path.join(build, file))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("database")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--mentioning", default="")
    parser.add_argument("--not-in", metavar="BUILD")
    parser.add_argument("--flags-last", action="store_true", help="as `FILE -- FLAGS`")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    arguments, clang = parser.parse_args(words[:end]), words[end + 1:]
    with open(arguments.database, encoding="utf-8") as database:
        entries = {path: entry for entry in json.load(database) for path in sources_of(entry["file"])}
    if not clang:
        print("\n".join(sorted(os.path.relpath(path) for path in entries)))
        return 0

    def check(path):
        flags = kept_flags(entries[os.path.realpath(path)]["command"])
        command = [*clang, path, "--", *flags] if arguments.flags_last else [*clang, *flags, path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, text=True, check=False)
        # Drops clang's count of the warnings in headers that are not ours.
        of_headers = r"^\d+ warnings? (generated|treated as error).*\n"
        output = re.sub(of_headers, "", done.stdout, flags=re.M)
        return path, done.returncode, output

    failed = 0
    elsewhere = compiled_in(arguments.not_in) if arguments.not_in else set()
    paths = [path for path in sys.stdin.read().split()
             if os.path.realpath(path) not in elsewhere and mentions(path, arguments.mentioning)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for path, status, output in pool.map(check, paths):
            failed += status != 0
            if status != 0 or output:
                print(f"{path}:\n{output}", flush=True)
    print(f"{len(paths)} files, {failed} with complaints")
    return failed != 0 or not paths


if __name__ == "__main__":
    sys.exit(main())
