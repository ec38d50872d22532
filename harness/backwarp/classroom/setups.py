"""What a course system needs to grade by itself: `backwarp class RULES.toml --make NAME -o DIR`."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template
from uuid import uuid4

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
    "autograder.zip/setup.sh": f"""\
#!/bin/bash
set -e
apt-get update && apt-get install -y python3 python3-venv
python3 -m venv /opt/backwarp
/opt/backwarp/bin/{INSTALL}
""",
    "autograder.zip/run_autograder": """\
#!/bin/bash
/opt/backwarp/bin/backwarp class /autograder/submission --trusted --rules /autograder/source/rules.toml \\
    --format gradescope > /autograder/results/results.json
""",
}
_PRAIRIELEARN = {
    "Dockerfile": _IMAGE,
    "info.json": json.dumps(
        {
            "uuid": "$UUID",
            "type": "v3",
            "title": "CUDA kernels",
            "topic": "CUDA",
            "gradingMethod": "External",
            "externalGradingOptions": {
                "image": "YOUR/IMAGE:built-from-this-Dockerfile",
                "entrypoint": "/grade/tests/run.sh",
                "timeout": 600,
            },
        },
        indent=2,
    )
    + "\n",
    "question.html": """\
<pl-question-panel><p>Hand in: $NAMES</p></pl-question-panel>
<pl-file-upload file-names="$NAMES"></pl-file-upload>
<pl-submission-panel>
  <pl-external-grader-results></pl-external-grader-results>
  <pl-file-preview></pl-file-preview>
</pl-submission-panel>
""",
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
    "autograde.tar/grade.sh": f"""\
#!/bin/bash
# with rules.toml; what is handed in lies beside them as handin.zip
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
_RULES_AT = {
    "gradescope": "autograder.zip/rules.toml",
    "prairielearn": "tests/rules.toml",
    "autolab": "autograde.tar/rules.toml",
}
_PACKED = re.compile(r"(\w+)\.(zip|tar)/")


def make(name: str, rules: Path, target: Path, names: Sequence[str] = ()) -> list[Path]:
    """Writes the files of a set-up, what belongs in an archive packed; returns them. names: of the files that are to be
    handed in; () for one archive. Errors: CourseError."""
    try:
        files = SETUPS[name] | {_RULES_AT.get(name, "rules.toml"): rules.read_text(encoding="utf-8")}
        fields = {"UUID": str(uuid4()), "NAMES": ", ".join(names or ["hand-in.zip"])}
        with tempfile.TemporaryDirectory(prefix="backwarp-class-") as scratch:
            for file, text in files.items():
                path = Path(scratch, file) if _PACKED.match(file) else target / file
                path.parent.mkdir(parents=True, exist_ok=True)
                put(path, Template(text).safe_substitute(fields))
                if text.startswith("#!"):
                    path.chmod(0o755)
            archives = {m[0]: (target / m[1], m[2]) for m in map(_PACKED.match, files) if m}
            target.mkdir(parents=True, exist_ok=True)
            for inside, (stem, kind) in archives.items():
                shutil.make_archive(str(stem), kind, Path(scratch, inside))
    except OSError as error:
        raise CourseError(f"{error.filename or target}: {error.strerror or error}") from None
    return sorted(
        {target / file.partition("/")[0] if _PACKED.match(file) else target / file for file in files}
    )
