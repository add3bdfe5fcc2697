"""The connectors of a service, opened and closed with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.observe.metrics import StreamMetrics
from freshkeeper.maintenance.outputs.sender import AnswerSender
from freshkeeper.maintenance.serve.app_context import AppContext
from freshkeeper.maintenance.serve.connectors.incoming import Incoming
from freshkeeper.maintenance.serve.connectors.outgoing import Outgoing
from freshkeeper.maintenance.serve.connectors.output_numbers import OutputNumbers
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import QueryService


@dataclass(eq=False)
class Connectors:
    """Streams that a service reads by itself, and outputs of its answers."""

    service: QueryService
    incoming: Incoming
    outgoing: Sequence[Outgoing]

    @classmethod
    def of(cls, config: ServeConfig, context: AppContext, tell: Callable[[str], None]) -> "Connectors":
        """Open the connectors of a config; close the service if that fails."""
        try:
            return cls._of(config, context, tell)
        except BaseException:
            context.service.close()
            raise

    @classmethod
    def _of(cls, config: ServeConfig, context: AppContext, tell: Callable[[str], None]) -> "Connectors":
        service, status = context.service, context.status
        addresses = {name: one.reads for name, one in config.streams.items() if one.reads}

        def gap(stream: str, why: str) -> None:
            status.gap(stream, service.stream(stream)["watermark"], None, why)

        incoming = Incoming(service, addresses, tell, gap)
        outgoing = []
        for name, one in config.outputs.items():
            for query in one.queries:
                if query not in service.queries.all:  # a query may be registered later
                    tell(str(UnknownNameError(f"query for outputs.{name} yet:", query, service.queries.all)))
            place = config.state / "outputs"
            output = one.open_receiver(place / f"{name}.dead-letters.ndjson")
            outgoing.append(Outgoing(name, service, AnswerSender(output, tell), place, frozenset(one.queries)))
        context.metrics.registry.register(StreamMetrics(lambda: incoming.links))
        context.metrics.registry.register(OutputNumbers(outgoing))
        return cls(service, incoming, outgoing)

    def start(self) -> None:
        """Begin to send, then to read: no answer is made before its output works."""
        for output in self.outgoing:
            output.start()
        self.incoming.start()

    def close(self) -> bool:
        """Stop reading, finish evaluations, and send their answers; return whether the service has ended."""
        self.incoming.stop()
        ended = self.service.close()
        for output in self.outgoing:
            output.stop()
        return ended
