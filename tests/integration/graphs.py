"""Plans of several processes that wait for each other, and what they must have moved then."""

CELL = 64  # bytes


class Graph:
    """Plans, one per vertex, each of some rank: it waits for its predecessors, and then passes on the sum of their values. A subclass
    says how one waits for, and tells, another: connect(), waits(), tells()."""

    def __init__(self, dice, actors, size, seats, bytes_each=CELL):
        self.dice, self.actors, self.size = dice, actors, size
        self.ranks = [dice.randrange(len(actors)) for _ in range(size)]
        self.edges = {}  # (from, to): what connect() has returned, if not None
        for vertex in range(1, size):
            for earlier in dice.sample(range(vertex), min(vertex, dice.choice([0, 1, 1, 2, 3]))):
                if (edge := self.connect(earlier, vertex)) is not None:
                    self.edges[earlier, vertex] = edge
        self.regions = [actor.alloc(bytes_each * size) for actor in actors]
        self.handles = [actor.handle(region) for actor, region in zip(actors, self.regions)]
        self.plans = [self.plan(vertex, dice.choice(seats)) for vertex in range(size)]

    def before(self, vertex):
        return sorted(earlier for earlier, later in self.edges if later == vertex)

    def plan(self, vertex, seat):
        rank, steps = self.ranks[vertex], self.waits(vertex)
        for later in sorted(later for earlier, later in self.edges if earlier == vertex):
            place = CELL * later + 8 * self.before(later).index(vertex)
            steps.append(f"put {self.regions[rank]} {CELL * vertex} 8 {self.handles[self.ranks[later]]} {place} 8")
            steps.append(self.tells(vertex, later))
        return self.actors[rank].plan(*(steps or [f"put {self.regions[rank]} 0 8 {self.handles[rank]} {CELL * vertex + 32} 8"]),
                                      seat=seat, channel=self.dice.choice([0, 0, 0, 3]))

    def ask(self, vertex, command):
        return self.actors[self.ranks[vertex]].ask(command)

    def cell(self, vertex):
        return self.ask(vertex, f"read {self.regions[self.ranks[vertex]]} {CELL * vertex} 24")[0]

    def wait_for_all(self):
        for vertex in range(self.size):
            self.ask(vertex, f"wait {self.plans[vertex]} -2")

    def run(self, case, seed, what):
        """Starts all of them, in any order: the cells then have the values of a sequential run."""
        vertices = list(range(self.size))
        for vertex in vertices:
            self.ask(vertex, f"fill {self.regions[self.ranks[vertex]]} {CELL * vertex} {CELL} {seed * self.size + vertex}")
        cells = [self.cell(vertex) for vertex in vertices]
        for vertex in vertices:
            for place, earlier in enumerate(self.before(vertex)):
                cells[vertex] = cells[vertex][:16 * place] + cells[earlier][:16] + cells[vertex][16 * (place + 1):]
        self.dice.shuffle(vertices)
        for vertex in vertices:
            self.ask(vertex, f"start {self.plans[vertex]}")
        self.wait_for_all()
        for vertex in sorted(vertices):
            case.assertEqual(self.cell(vertex), cells[vertex], f"vertex {vertex} of {self.size}, {what}")
