mkdir -p output && python3 - <<'PY'
import json

# Only the top level is merged: every nested object of the site replaces the whole object of the base.
merged = {**json.load(open("base.json")), **json.load(open("site.json"))}
json.dump(merged, open("output/config.json", "w"), indent=2)
PY
