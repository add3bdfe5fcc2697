"""The trains of paper 004: three static triples of each, a delay and a platform that change."""

from pyoxigraph import Literal, NamedNode, Quad, Triple

from freshkeeper.maintenance.fragments.annotation_style import Held


def trains(number: int, lasts: int, until: int, start: int = 0) -> tuple[list[Quad], list[Held]]:
    """004's trains: three static triples of each, and its delay and platform anew every `lasts` milliseconds."""
    base = "http://example.org/train/"
    static, held = list[Quad](), list[Held]()
    for n in range(number):
        train = NamedNode(f"{base}{n}")
        for name, value in (("headSign", f"Town {n % 9}"), ("routeLabel", f"Route {n % 4}"), ("departureTime", f"{n}")):
            static.append(Quad(train, NamedNode(base + name), Literal(value)))
        for at in range(start, until, lasts):
            step = at // lasts
            for name, amount in (("delay", (n + step) % 7), ("platform", (n * 3 + step) % 5)):
                held.append(Held(Triple(train, NamedNode(base + name), Literal(amount)), at, at + lasts))
    return static, held
