mkdir -p output && python3 - <<'PY'
import hashlib
import json
import os
import pathlib

groups = {}
paths = [os.path.join(d, n) for d, _, names in os.walk("inbox") for n in names]
for path in sorted(os.path.relpath(p, "inbox") for p in paths):
    groups.setdefault(pathlib.Path("inbox", path).read_bytes(), []).append(path)
manifest = []
for content, sources in groups.items():
    new = sources[0].lower().replace(" ", "-")
    target = pathlib.Path("output/tree", new)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    manifest.append({"path": new, "size": len(content), "sha256": digest, "sources": sources})
manifest.sort(key=lambda entry: entry["path"])
json.dump(manifest, open("output/manifest.json", "w"), indent=1)
PY
