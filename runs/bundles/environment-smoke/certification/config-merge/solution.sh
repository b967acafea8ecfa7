mkdir -p output && python3 - <<'PY'
import json


def merge(base, site):
    out = dict(base)
    for key, value in site.items():
        if value is None:
            out.pop(key, None)
        elif isinstance(value, dict):
            out[key] = merge(out[key] if isinstance(out.get(key), dict) else {}, value)
        else:
            out[key] = value
    return out


merged = merge(json.load(open("base.json")), json.load(open("site.json")))
json.dump(merged, open("output/config.json", "w"), indent=2)
PY
