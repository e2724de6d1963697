"""The transcripts of docs/usage.md: every command shown there is run, and has to print what is shown.

    python3 usage_test.py HALFEVEN REPOSITORY
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def transcripts(text):
    """Pairs of a command and the lines that it prints, from blocks that are indented by four spaces."""
    command, shown = None, []
    for line in text.splitlines() + ["end"]:
        if line.startswith("    $ ") or (line and not line.startswith("    ")):
            if command is not None:
                while shown and not shown[-1]:
                    shown.pop()
                yield command, shown
            command, shown = (line[6:], []) if line.startswith("    $ ") else (None, [])
        elif command is not None:
            shown.append(line[4:])


def main():
    halfeven, repository = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    failures = commands = 0
    with tempfile.TemporaryDirectory() as folder:
        # The commands name files of the repository, and write below build/.
        for entry in ("docs", "examples", "tests"):
            os.symlink(repository / entry, pathlib.Path(folder) / entry)
        (pathlib.Path(folder) / "build").mkdir()
        path = f"{folder}/bin:{os.environ['PATH']}"
        (pathlib.Path(folder) / "bin").mkdir()
        os.symlink(halfeven, pathlib.Path(folder) / "bin" / "halfeven")
        environment = {**os.environ, "PATH": path, "LC_ALL": "C"}
        code = 0
        for command, shown in transcripts((repository / "docs" / "usage.md").read_text()):
            commands += 1
            if command == "echo $?":
                printed = [str(code)]
            else:
                run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
                code, printed = run.returncode, run.stdout.rstrip("\n").split("\n")
            if printed != shown:
                failures += 1
                print(f"$ {command}\nshown:\n  " + "\n  ".join(shown) + "\nprinted:\n  " + "\n  ".join(printed))
    print(f"{commands} commands, {failures} print something else")
    return 1 if failures or commands < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
