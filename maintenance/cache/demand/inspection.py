"""A round as a networkx graph, for inspection, drawing and small reference answers; never in the hot path."""

import networkx as nx

from freshkeeper.policies.base import Round, Selection


def to_networkx(round: Round, selection: Selection | None = None) -> "nx.Graph[tuple[str, int]]":
    """Draw the maintenance graph of a round: nodes ("sn", i) and ("sr", j) with what the policy knows of them.

    An SN has its `mappings` in the window, an SR its `demand`, whether it is `stale`, how many evaluations it would
    stay fresh (`life`) and whether the selection has `chosen` it.

    >>> from freshkeeper import round_of, to_networkx
    >>> graph = to_networkx(round_of([(0, 0), (0, 1), (1, 1)], counts=[[1], [2]], life=[1, 1]))
    >>> graph.nodes["sr", 1]["demand"], sorted(graph["sr", 1])
    (3.0, [('sn', 0), ('sn', 1)])
    """
    drawn: nx.Graph[tuple[str, int]] = nx.Graph()
    chosen = set() if selection is None else set(selection.chosen.tolist())
    for sn in range(round.graph.sns):
        drawn.add_node(("sn", sn), bipartite=0, mappings=float(round.profile[sn, 0]))
    for sr in range(round.srs):
        drawn.add_node(
            ("sr", sr),
            bipartite=1,
            key=round.keys[sr] if round.keys else sr,
            demand=float(round.demand[sr, 0]),
            stale=bool(round.stale[sr]),
            life=float(round.fresh_if_refreshed[sr].sum()),
            chosen=sr in chosen,
        )
    for sn in range(round.graph.sns):
        drawn.add_edges_from((("sn", sn), ("sr", int(sr))) for sr in round.graph.inputs(sn))
    return drawn
