#!/bin/sh
# What a new user does first, with the built wheel, in a virtual environment of its own: the core alone, then its types
# under mypy and pyright, then the extras data and plot. Needs a package index, so it is no part of the suite: make walk.
# Everything that is asked of a step is checked here. $1 is a Python that has hatchling, and can make environments.
set -eu
python=${1:-python3}
case $python in */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$root" && "$python" -m hatchling build --target wheel --directory "$work" > /dev/null)
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --upgrade pip
"$work/venv/bin/python" -m pip install --quiet "$work"/*.whl
PATH="$work/venv/bin:$PATH"
unset PYTHONPATH || true
cd "$work"
absent() {
  for name in "$@"; do
    if python -c "import $name" 2> /dev/null; then echo "unexpected package: $name"; exit 1; fi
  done
}

echo "the core alone"
absent jax pandas polars pytest statsmodels pyarrow matplotlib pooch
psimlearn --version | grep -q "$(python -c 'import importlib.metadata as m; print(m.version("psimlearn"))')"
awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$root/README.md" > ten_lines.py
test "$(wc -l < ten_lines.py)" -gt 10
python -W error ten_lines.py > ten_lines.txt
grep -q "^PSIM " ten_lines.txt
test -s pendulum.psim
psimlearn demo --folder core-demo
test -s core-demo/model.psim

echo "types, as a user's checkers see them"
cp "$root/tests/release/user.py" user.py
python -W error user.py
python -m venv checkers
checkers/bin/python -m pip install --quiet mypy pyright
checkers/bin/mypy --strict --python-executable venv/bin/python user.py
checkers/bin/pyright --pythonpath venv/bin/python user.py

echo "with the extras data and plot"
python -m pip install --quiet "$(echo "$work"/*.whl)[data,plot]"
absent jax pandas polars pytest statsmodels
psimlearn demo
test -s psimlearn-demo/report.html
psimlearn fit psimlearn-demo/recordings.csv -o mine.psim --report mine.html > fit.txt 2> fit.err
grep -q "guessed: column 'recording'" fit.err
grep -q "^PSIM " fit.txt
grep -q "</html>" mine.html
psimlearn filter mine.psim - < psimlearn-demo/new.csv | cut -d, -f1-3 > piped.csv
psimlearn filter mine.psim psimlearn-demo/new.csv -o answers.parquet
test "$(wc -l < piped.csv)" -eq "$(wc -l < psimlearn-demo/new.csv)"
psimlearn forecast mine.psim psimlearn-demo/new.csv --steps 10 -o next.csv
test "$(wc -l < next.csv)" -eq 501
psimlearn evaluate mine.psim psimlearn-demo/new.csv | tee evaluated.txt
grep -q "^PSIM " evaluated.txt
psimlearn info mine.psim > /dev/null
if psimlearn fit psimlearn-demo/recordings.csv -o mine.psim 2> refused.txt; then echo "overwrote a file"; exit 1; fi
grep -q -- "--force" refused.txt
echo "walk: done"
