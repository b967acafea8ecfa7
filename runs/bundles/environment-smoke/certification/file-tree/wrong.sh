mkdir -p output && python3 - <<'PY'
import hashlib
import json
import os
import pathlib

# Renames only the file names, keeps the last duplicate instead of the first, and lists only that one.
groups = {}
paths = [os.path.join(d, n) for d, _, names in os.walk("inbox") for n in names]
for path in sorted(os.path.relpath(p, "inbox") for p in paths):
    groups[pathlib.Path("inbox", path).read_bytes()] = path
manifest = []
for content, path in groups.items():
    folder, name = os.path.split(path)
    new = os.path.join(folder, name.lower().replace(" ", "-"))
    target = pathlib.Path("output/tree", new)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    manifest.append({"path": new, "size": len(content), "sha256": digest, "sources": [path]})
manifest.sort(key=lambda entry: entry["path"])
json.dump(manifest, open("output/manifest.json", "w"), indent=1)
PY
