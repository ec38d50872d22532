"""What a course system needs to grade by itself: `backwarp class RULES.toml --make NAME -o DIR`."""

from __future__ import annotations

import json
from pathlib import Path

from .. import __version__
from ..errors import CourseError
from .write import put

INSTALL = f"pip install --quiet backwarp=={__version__}"
_IMAGE = f"""\
FROM python:3.12-slim
RUN {INSTALL}
"""
_GRADE = 'backwarp class "$1" --trusted --rules {rules} --format {format}'

_GRADESCOPE = {
    "setup.sh": f"""\
#!/bin/bash
set -e
apt-get update && apt-get install -y python3 python3-venv
python3 -m venv /opt/backwarp
/opt/backwarp/bin/{INSTALL}
""",
    "run_autograder": """\
#!/bin/bash
/opt/backwarp/bin/backwarp class /autograder/submission --trusted --rules /autograder/source/rules.toml \\
    --format gradescope > /autograder/results/results.json
""",
}
_PRAIRIELEARN = {
    "Dockerfile": _IMAGE,
    "info.json": json.dumps(
        {
            "gradingMethod": "External",
            "externalGradingOptions": {
                "enabled": True,
                "image": "YOUR/IMAGE:built-from-this-Dockerfile",
                "entrypoint": "/grade/tests/run.sh",
                "timeout": 300,
            },
        },
        indent=2,
    )
    + "\n",
    "tests/run.sh": """\
#!/bin/bash
mkdir -p /grade/results
backwarp class /grade/student --trusted --rules /grade/tests/rules.toml --format prairielearn \\
    > /grade/results/results.json
""",
}
_CLASSROOM = {
    "autograder.py": f'''\
"""For Classroom 50, beside rules.toml: it installs Backwarp and writes result.json."""

import subprocess
import sys
from pathlib import Path

subprocess.run([sys.executable, "-m", "{INSTALL.replace(" ", '", "')}"], check=True)
rules = Path(__file__).with_name("rules.toml")
command = [sys.executable, "-m", "backwarp", "class", ".", "--trusted", "--rules", rules, "--format", "classroom50"]
Path("result.json").write_bytes(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
''',
    "runtime.json": json.dumps({"runs-on": "ubuntu-latest", "python": "3.12"}, indent=2) + "\n",
    ".github/workflows/classroom.yml": f"""\
# for GitHub Classroom: a run that fails is a puzzle that does not pass
name: grade
on: push
permissions:
  contents: read
jobs:
  grade:
    runs-on: ubuntu-latest
    timeout-minutes: 20
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: {INSTALL}
      - run: backwarp class . --trusted --format junit > grades.xml
      - run: cat grades.xml && ! grep -q "<failure" grades.xml
""",
}
_AUTOLAB = {
    "autograde-Makefile": "all:\n\ttar xf autograde.tar\n\tbash grade.sh\n",
    "grade.sh": f"""\
#!/bin/bash
# in autograde.tar, with rules.toml; what is handed in lies beside it as handin.zip
python3 -m venv venv && venv/bin/{INSTALL}
venv/bin/backwarp class handin.zip --trusted --rules rules.toml --format autolab
""",
}
_CONTAINER = {
    "Dockerfile": _IMAGE + "COPY rules.toml grade.sh /\n",
    "grade.sh": "#!/bin/bash\n# grade.sh FOLDER: for Submitty, INGInious or any other that runs a container\n"
    + _GRADE.format(rules="/rules.toml", format="junit")
    + "\n",
}
SETUPS = {
    "gradescope": _GRADESCOPE,
    "prairielearn": _PRAIRIELEARN,
    "classroom": _CLASSROOM,
    "autolab": _AUTOLAB,
    "container": _CONTAINER,
}
_RULES_AT = {"prairielearn": "tests/rules.toml"}


def make(name: str, rules: Path, target: Path) -> list[Path]:
    """Writes the files of a set-up; returns them. Errors: CourseError."""
    try:
        files = SETUPS[name] | {_RULES_AT.get(name, "rules.toml"): rules.read_text(encoding="utf-8")}
        written = []
        for file, text in files.items():
            path = target / file
            path.parent.mkdir(parents=True, exist_ok=True)
            put(path, text)
            if text.startswith("#!"):
                path.chmod(0o755)
            written.append(path)
    except OSError as error:
        raise CourseError(f"{error.filename or target}: {error.strerror or error}") from None
    return written
