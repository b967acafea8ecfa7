"""Makes one finished run with its evidence on the site that the environment names, and prints its id.

The run's folder is one that a passed run leaves; it is ingested, judged and published by the product's own code.
"""

import os
import shutil
import tempfile
from pathlib import Path


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchsite.settings"
    import django

    django.setup()
    from django.conf import settings

    from evidence.register.ingest import ingest
    from evidence.register.publishing import publish
    from evidence.suite.judgement import judge
    from evidence.suite.run_facts import read_run
    from tests.evidence.folders import passing_run
    from tests.evidence.register.test_ingest import finished
    from tests.evidence.rows import run_of

    with tempfile.TemporaryDirectory() as scratch:
        run, written = run_of(passing_run(2), Path(scratch))
        folder = settings.DATA / "runs" / run.key
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copytree(written, folder)
    ingest(run, folder)
    run = finished(run, folder)
    facts = read_run(folder)
    publish(run, facts, judge(facts, cleanup_clean=run.cleanup == "clean"))
    print(run.key)


if __name__ == "__main__":
    main()
