"""The measurements and their evaluation.

Only comparable samples are compared: the processors of a virtual machine move, and a cache line takes 35 to 110 ns from one to
the other when they are near, 150 to 250 when they are far. Every sample has a probe before and after it; samples taken near are
compared with samples taken near.
"""
import math
import statistics

FAR_NS = 130  # between the two
ENOUGH = 3  # rounds with every program at one distance
OURS, PEERS = "tcad", ["openmpi", "mpich", "openmpi_ucx"]
COPIES = ["push", "pull", "half", "ring"]


def placement(row):
    if max(row["line_ns"]) < FAR_NS:
        return "near"
    return "far" if min(row["line_ns"]) >= FAR_NS else "moved"


class Rounds:
    """minimum: the minimum instead of the median, which on a busy machine shows more of a change (not of a program)."""

    def __init__(self, minimum=False):
        self.samples = {}  # [pattern, bytes][who][how, way]: list of (placement, row)
        self.placements = []
        self.field, self.middle = ("least_us", min) if minimum else ("us", statistics.median)

    def add(self, who, row):
        place = placement(row)
        by_who = self.samples.setdefault((row["pattern"], row["bytes"]), {})
        # the peers' ways are different programs; the library chooses tcad's, and may choose another one in each round
        way = "" if who.startswith(OURS) else row["way"]
        by_who.setdefault(who, {}).setdefault((row["how"], way), []).append((place, row))
        self.placements.append(place)

    def rows(self, whos):
        """A row for each pattern and distance. whos: the programs that ran."""
        return [self.row(key, by_who, place, rounds) for key, by_who in self.samples.items()
                for place, rounds in placements(by_who, whos)]

    def row(self, key, by_who, place, rounds):
        ours = self.middles(by_who.get(OURS, {}), place, self.field)
        row = {"pattern": key[0], "bytes": key[1], "ours_us": best(ours, "plans")}
        packing = {}
        for who in PEERS:
            theirs = self.middles(by_who.get(who, {}), place, self.field)
            row[f"{who}_us"] = best(theirs, "datatypes")
            packing[who] = best(theirs, "packing")
        row["best_manual_us"] = least(packing.values())
        forced = {copy: best(self.middles(by_who.get(f"{OURS}_{copy}", {}), place, self.field), "plans") for copy in COPIES}
        row["forced_us"] = forced
        row["regret"] = ratio(row["ours_us"], least(forced.values())) if place != "moved" else None
        row["starts"] = max((sample["starts"] for samples in by_who.get(OURS, {}).values() for _, sample in samples), default=None)
        row["way"] = usual_way(by_who.get(OURS, {}), place)
        row["placement"] = place
        row["line_ns"] = least(self.probes(by_who.get(OURS, {}), place, "line_ns"))
        row["pull_us"] = least(self.probes(by_who.get(OURS, {}), place, "pull_us"))
        row["rounds"] = rounds
        row["better_mpi_us"] = least([row["openmpi_us"], row["mpich_us"]])
        row["best_peer_us"] = least([row[f"{who}_us"] for who in PEERS] + [row["best_manual_us"]])
        alike = place != "moved"
        row["times_mpi"] = ratio(row["better_mpi_us"], row["ours_us"]) if alike else None
        row["times_best"] = ratio(row["best_peer_us"], row["ours_us"]) if alike else None
        return row

    def middles(self, ways, place, field):
        """{(how, way): us}"""
        found = {way: [row[field] for where, row in samples if place in ("moved", where)] for way, samples in ways.items()}
        return {way: self.middle(values) for way, values in found.items() if values}

    @staticmethod
    def probes(ways, place, field):
        """The median of each way."""
        found = [[value for where, row in samples if place in ("moved", where) for value in row[field]] for samples in ways.values()]
        return [statistics.median(values) for values in found if values]


def placements(by_who, whos):
    """The distances at which enough rounds have a sample of every program, with their number; else that of most, or "moved": all
    samples together, which cannot be compared."""
    counts = {place: min((sum(where == place for where, _ in samples)
                          for who in whos for samples in by_who.get(who, {}).values()), default=0) for place in ("near", "far")}
    enough = [(place, count) for place, count in counts.items() if count >= ENOUGH]
    if enough:
        return enough
    place = max(counts, key=counts.get)
    if counts[place]:
        return [(place, counts[place])]
    return [("moved", min((len(samples) for ways in by_who.values() for samples in ways.values()), default=0))]


def usual_way(ways, place):
    """The most frequent value of tcad's samples."""
    said = [row["way"] for samples in ways.values() for where, row in samples if place in ("moved", where)]
    return statistics.mode(said) if said else None


def best(found, how):
    """The faster of the ways of one kind: ordinary or persistent requests."""
    return least(us for (kind, _), us in found.items() if kind == how)


def least(values):
    return min((digits(value) for value in values if value is not None), default=None)


def ratio(theirs, ours):
    return digits(theirs / ours) if theirs and ours else None


def digits(value):
    """With the significant digits only."""
    return float(f"{value:.4g}")


def geometric_mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None
