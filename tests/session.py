"""Runs the blocks of a page as a reader would: Python in one namespace, shell commands in a shell, all in one folder.

Takes [language, text, line] of each block as JSON on standard input and prints the output of each as a JSON list. The
tests start it as a process, so that a page runs without their checks of annotations and without their imports.
"""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout


def main(page: str) -> None:
    names: dict[str, object] = {"__name__": "documentation"}
    said = [
        told_by_python(text, line, page, names) if language == "python" else told_by_shell(text, line, page)
        for language, text, line in json.load(sys.stdin)
    ]
    print(json.dumps(said))


def told_by_python(text: str, line: int, page: str, names: dict[str, object]) -> str:
    # as many empty lines before it as the page has, so that a traceback names the line of the page
    with redirect_stdout(io.StringIO()) as said:
        exec(compile("\n" * line + text, page, "exec"), names)
    return said.getvalue()


def told_by_shell(text: str, line: int, page: str) -> str:
    command = ["bash", "-eu", "-o", "pipefail", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or "Warning" in done.stderr:
        sys.exit(f"{page}, line {line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    main(sys.argv[1])
