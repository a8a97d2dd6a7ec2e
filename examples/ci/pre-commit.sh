#!/bin/sh
# A Git hook: copy it to .git/hooks/pre-commit. It lints the CQL files that are about to be committed.
set -eu
# Names with blanks and line breaks stay whole.
git diff --cached --name-only --diff-filter=ACMR -z -- 'queries/*.cql' |
    xargs -0 -r cqlens explain --quiet --schema schema.cql --fail-on medium --
