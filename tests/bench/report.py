"""report: a measured row, its budget, and how rows are printed and stored."""
import dataclasses
import json
import random
import statistics

RESAMPLES = 2000
ROUNDS_FOR_INTERVAL = 6     # of fewer, an interval says nothing


@dataclasses.dataclass
class Budget:
    """A bound on the value, or on its ratio to the peer's value."""
    limit: float
    ratio: bool = False
    at_least: bool = False

    def __str__(self):
        sign = ">=" if self.at_least else "<="
        return f"{sign} {self.limit:g}" + (" x peer" if self.ratio else "")

    def met_by(self, row):
        measured = row.ratio if self.ratio else row.value
        if measured is None:
            return None
        return measured >= self.limit if self.at_least else measured <= self.limit


@dataclasses.dataclass
class Row:
    """One line of the table. `samples` are one figure for each round, the peer's likewise; the row
    says their median, and the ratio is that of the medians. `paired`: those of a round belong
    together, and the row has an interval for its ratio; what lies on both sides of the limit then
    is neither met nor missed."""
    name: str
    unit: str
    samples: list = dataclasses.field(default_factory=list)
    peer: str = None
    peer_samples: list = dataclasses.field(default_factory=list)
    budget: Budget = None
    why: str = None     # why a figure is missing
    note: str = None    # what one must know to read it
    doubt: str = None   # why these figures settle nothing, neither way
    given: dict = None  # a row that a program printed ready-made, which wins
    paired: bool = False

    @property
    def value(self):
        return median(self.samples)

    @property
    def peer_value(self):
        return median(self.peer_samples)

    @property
    def ratio(self):
        if self.value is None or not self.peer_value:
            return None
        return self.value / self.peer_value

    @property
    def interval(self):
        return interval_of_ratio(self.samples, self.peer_samples) if self.paired else None

    @property
    def met(self):
        if not self.budget or self.doubt or self.undecided():
            return None
        return self.budget.met_by(self)

    def undecided(self):
        """Whether another run of as many rounds might well say the contrary."""
        interval = self.interval if self.budget.ratio else None
        return bool(interval) and interval[0] <= self.budget.limit < interval[1]

    def verdict(self):
        """Of a row with a budget, in a word."""
        if not self.budget:
            return None
        if self.value is None:
            return "not measured"
        if self.budget.ratio and self.ratio is None:
            return "no peer"
        return {True: "yes", False: "NO", None: "open"}[self.met]

    def as_object(self):
        row = {"name": self.name, "value": rounded(self.value), "unit": self.unit,
               "peer": self.peer, "peer_value": rounded(self.peer_value),
               "ratio": rounded(self.ratio), "budget": str(self.budget) if self.budget else None,
               "rounds": max(len(self.samples), len(self.peer_samples)),
               "spread": spread(self.samples), "peer_spread": spread(self.peer_samples),
               "met": self.met, "interval": [rounded(x) for x in self.interval or ()] or None,
               "verdict": self.verdict()}
        row.update({key: text for key, text in (("why", self.why), ("note", self.note),
                                               ("doubt", self.doubt)) if text})
        row.update(self.given or {})
        return row


def given(row):
    """A row from the JSON line of a program that measures by itself."""
    return Row(row["name"], row.get("unit", ""), given=row)


def median(samples):
    return statistics.median(samples) if samples else None


def interval_of_ratio(samples, peer_samples):
    """Between which two ratios the ratio of the medians lies, 95 of 100 times: by drawing rounds
    again and again, with both figures of each. None: too few rounds, or a peer that costs nothing
    in some drawings."""
    pairs = list(zip(samples, peer_samples))
    if len(pairs) < ROUNDS_FOR_INTERVAL or len(samples) != len(peer_samples):
        return None
    draw, ratios = random.Random(len(pairs)), []
    for _ in range(RESAMPLES):
        drawn = draw.choices(pairs, k=len(pairs))
        peer = statistics.median(theirs for _, theirs in drawn)
        if peer <= 0:
            return None
        ratios.append(statistics.median(mine for mine, _ in drawn) / peer)
    ratios.sort()
    return ratios[RESAMPLES * 25 // 1000], ratios[RESAMPLES * 975 // 1000 - 1]


def rounded(value):
    return None if value is None else float(f"{value:.4g}")


def spread(samples):
    """Lowest and highest round."""
    return [rounded(min(samples)), rounded(max(samples))] if samples else None


def _text(value):
    if value is None:
        return "-"
    if isinstance(value, (int, float)):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value)


def _range(spread_or_deviation):
    """Lowest and highest; or what a program that measures by itself says it varied by."""
    if isinstance(spread_or_deviation, (int, float)):
        return f"+-{_text(spread_or_deviation)}"
    return "..".join(map(_text, spread_or_deviation)) if spread_or_deviation else "-"


COLUMNS = ("row", "value", "spread", "unit", "peer", "its value", "its spread", "ratio", "95 %",
           "budget", "met")


def cells(row):
    return [row["name"], _text(row.get("value")), _range(row.get("spread")), row.get("unit", ""),
            row.get("peer") or "-", _text(row.get("peer_value")), _range(row.get("peer_spread")),
            _text(row.get("ratio")), _range(row.get("interval")), _text(row.get("budget")),
            row.get("verdict") or {True: "yes", False: "NO", None: "-"}[row.get("met")]]


def print_table(rows):
    """A Markdown table, readable as it stands and ready for docs/performance.md."""
    lines = [list(COLUMNS)] + [cells(row) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    for number, line in enumerate(lines):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    for row in rows:
        for key in ("why", "note", "doubt"):
            if row.get(key):
                print(f"{row['name']}: {row[key]}")


def write_jsonl(rows, path):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
