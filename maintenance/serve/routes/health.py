"""For whoever watches over processes: alive, ready, and numbers for Prometheus."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from freshkeeper.maintenance.serve.door import Door, json_response
from freshkeeper.maintenance.serve.operation import Role, operation
from freshkeeper.maintenance.serve.routes.queries import Nothing


@operation("GET", "/healthz", Role.ANYBODY)
async def alive(door: Door, request: Request, parameters: Nothing) -> Response:
    """Whether the thread that evaluates is there."""
    del request, parameters
    up = door.service.alive
    return json_response({"alive": up}, 200 if up else 503)


@operation("GET", "/readyz", Role.ANYBODY)
async def ready(door: Door, request: Request, parameters: Nothing) -> Response:
    """Whether it takes elements, answers, reads its streams, and reaches the sources that its queries need."""
    del request, parameters
    service = door.service
    away = {name: link.failure or "not connected yet" for name, link in service.links.items() if not link.connected}
    left_alone = door.status.left_alone(service)
    up = service.alive and not away and not left_alone
    told = {"ready": up, "failed": dict(service.failures), "away": away, "left_alone": left_alone}
    return json_response(told, 200 if up else 503)


@operation("GET", "/metrics", gives={"text/plain": None})
async def metrics(door: Door, request: Request, parameters: Nothing) -> Response:
    """Metrics as Prometheus reads them."""
    del request, parameters
    return Response(generate_latest(door.metrics.registry), media_type=CONTENT_TYPE_LATEST)


OPERATIONS = [alive, ready, metrics]
