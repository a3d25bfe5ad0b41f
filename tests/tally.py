#!/usr/bin/env python3
"""tally.py TITLE=TESTLOG...: what the runs of `meson test` came to.

Counts the cases inside each cmocka program and every other test as one, names what failed and what
was skipped with its reason, and closes with one line. Exits with 1 when anything failed or a log
holds no test at all.
"""

import json
import re
import sys

CASE = re.compile(r"^\[\s+(OK|SKIPPED|FAILED)\s+\] (\w+)$", re.MULTILINE)
REASON = re.compile(r"^SKIP: (.+)$", re.MULTILINE)


def records(path):
    try:
        with open(path, encoding="utf-8") as log:
            return [json.loads(line) for line in log if line.strip()]
    except FileNotFoundError:
        return []


def cases(record):
    """Names of the passed, failed and skipped cases of one test program."""
    output = record.get("stdout", "") + "\n" + record.get("stderr", "")
    found = {"OK": [], "SKIPPED": [], "FAILED": []}
    for result, name in CASE.findall(output):
        if name not in found[result]:  # cmocka repeats the failed ones in its summary
            found[result].append(name)
    program = record["name"]
    reasons = REASON.findall(output)
    if record["result"] == "SKIP":
        return [], [], [(program, reasons[0] if reasons else "no reason given")]
    skipped = [(f"{program}: {name}", reasons[i] if i < len(reasons) else "no reason given")
               for i, name in enumerate(found["SKIPPED"])]
    failed = [f"{program}: {name}" for name in found["FAILED"]]
    if record["result"] not in ("OK", "EXPECTEDFAIL") and not failed:
        failed = [f"{program} ({record['result'].lower()})"]
    passed = found["OK"]
    if not passed and not failed and not skipped:
        passed = [program]
    return passed, failed, skipped


def main(arguments):
    total_passed = total_failed = total_skipped = 0
    for argument in arguments:
        title, _, path = argument.partition("=")
        passed, failed, skipped = [], [], []
        tests = records(path)
        for record in tests:
            for whole, part in zip((passed, failed, skipped), cases(record)):
                whole.extend(part)
        if not tests:
            failed.append("no test ran")
        print(f"{title}: {len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
        for name in failed:
            print(f"  FAILED   {name}")
        for name, reason in skipped:
            print(f"  skipped  {name}: {reason}")
        total_passed += len(passed)
        total_failed += len(failed)
        total_skipped += len(skipped)
    print(f"{total_passed} passed, {total_failed} failed, {total_skipped} skipped")
    return 1 if total_failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
