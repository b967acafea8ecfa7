mkdir -p output && python3 - <<'PY'
import json
import re

totals, malformed = {}, []
for number, line in enumerate(open("ledger.csv"), start=1):
    fields = line.rstrip("\n").split(",")
    if number == 1:
        continue
    if len(fields) == 4 and re.fullmatch(r"-?\d+\.\d{2}", fields[3]):
        totals[fields[1]] = totals.get(fields[1], 0) + int(fields[3].replace(".", ""))
    else:
        malformed.append(number)
text = {a: "%s%d.%02d" % ("-" * (c < 0), abs(c) // 100, abs(c) % 100) for a, c in totals.items()}
json.dump({"totals": text, "malformed_lines": malformed}, open("output/totals.json", "w"), indent=1)
PY
