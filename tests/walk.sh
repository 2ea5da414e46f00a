#!/bin/sh
# What a new user does first, in a virtual environment of its own with only the core and the extras data and plot.
# Needs a package index, so it is no part of the suite: make walk. Everything that is asked of a step is checked here.
set -eu
python=${1:-python3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --upgrade pip
"$work/venv/bin/python" -m pip install --quiet "$root[data,plot]"
PATH="$work/venv/bin:$PATH"
unset PYTHONPATH || true
cd "$work"
for absent in jax pandas polars pytest statsmodels; do
  if python -c "import $absent" 2>/dev/null; then echo "unexpected package: $absent"; exit 1; fi
done

psimlearn --version
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
