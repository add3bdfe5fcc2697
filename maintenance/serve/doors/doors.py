"""All doors of a service beside HTTP, opened and closed with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from freshkeeper.maintenance.base.errors import UnknownNameError
from freshkeeper.maintenance.observe.stream_numbers import StreamNumbers
from freshkeeper.maintenance.outputs.sender import Sender
from freshkeeper.maintenance.serve.door import Door
from freshkeeper.maintenance.serve.doors.incoming import Incoming
from freshkeeper.maintenance.serve.doors.outgoing import Outgoing
from freshkeeper.maintenance.serve.doors.output_numbers import OutputNumbers
from freshkeeper.maintenance.serve.serve_config import ServeConfig
from freshkeeper.maintenance.serve.service import Service


@dataclass(eq=False)
class Doors:
    """Streams that come, and answers that go."""

    service: Service
    incoming: Incoming
    outgoing: Sequence[Outgoing]

    @classmethod
    def of(cls, config: ServeConfig, door: Door, tell: Callable[[str], None]) -> "Doors":
        """As a config says; where that cannot be, the service is closed."""
        try:
            return cls._of(config, door, tell)
        except BaseException:
            door.service.close()
            raise

    @classmethod
    def _of(cls, config: ServeConfig, door: Door, tell: Callable[[str], None]) -> "Doors":
        service, status = door.service, door.status
        addresses = {name: one.reads for name, one in config.streams.items() if one.reads}

        def gap(stream: str, why: str) -> None:
            status.gap(stream, service.stream(stream)["watermark"], None, why)

        incoming = Incoming(service, addresses, tell, gap)
        outgoing = []
        for name, one in config.outputs.items():
            for query in one.queries:
                if query not in service.queries.all:  # it may be registered later
                    tell(str(UnknownNameError(f"query for outputs.{name} yet:", query, service.queries.all)))
            place = config.state / "outputs"
            output = one.opened(place / f"{name}.dead-letters.ndjson")
            outgoing.append(Outgoing(name, service, Sender(output, tell), place, frozenset(one.queries)))
        door.metrics.registry.register(StreamNumbers(lambda: incoming.links))
        door.metrics.registry.register(OutputNumbers(outgoing))
        return cls(service, incoming, outgoing)

    def start(self) -> None:
        """Begin to send, then to read, so that every answer has somewhere to go."""
        for output in self.outgoing:
            output.start()
        self.incoming.start()

    def close(self) -> None:
        """Nothing more comes in; what was being evaluated is, and its answers go out."""
        self.incoming.stop()
        self.service.close()
        for output in self.outgoing:
            output.stop()
