"""Groups of clients without a library: shared by the tests of what they may do, and of what it costs."""

import hostile
import wire


class GroupCase(hostile.HostileCase):
    def join(self, cluster, places, name="hostile"):
        """Sessions of a group, by rank."""
        clients = [self.open(cluster[node], group_size=len(places)) for node in places]
        for rank, client in enumerate(clients):
            client.send(wire.group_join(name, rank, len(places)))
        for client in clients:
            self.assertEqual(client.answer()[0], wire.GROUP_MEMBERS)
            client.calls = {0: 1}  # of each group: the number of the next one
        return clients

    def together(self, clients, request):
        """All make a call: request(client). Their answers: a message's kind and fields, or a Failure."""
        for client in clients:
            client.send(request(client))
        return [self.answer_of(client) for client in clients]

    @staticmethod
    def answer_of(client):
        try:
            return client.answer()[:2]
        except wire.Failure as failure:
            return failure

    def split(self, clients, colours, group=0):
        """The groups that all get."""
        answers = self.together(clients, lambda client: wire.group_split(client.calls[group], colours[clients.index(client)], group=group))
        groups = [body.get(1, [0])[0] for kind, body in answers]
        for client, made in zip(clients, groups):
            client.calls[group] += 1
            client.calls.setdefault(made, 0)
        return groups

    def barrier(self, clients, group=0):
        for kind, _ in self.together(clients, lambda client: wire.gather(client.calls[group], group=group)):
            self.assertEqual(kind, wire.GATHERED)
        for client in clients:
            client.calls[group] += 1
