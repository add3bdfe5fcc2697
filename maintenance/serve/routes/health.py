"""Health checks and metrics, for process managers and Prometheus."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from freshkeeper.maintenance.serve.app_context import AppContext, json_response
from freshkeeper.maintenance.serve.operation import Role, operation


@operation("GET", "/healthz", Role.PUBLIC)
async def alive(context: AppContext) -> Response:
    """Return whether the thread that evaluates queries runs; 503 if not."""
    up = context.service.alive
    return json_response({"alive": up}, 200 if up else 503)


@operation("GET", "/readyz", Role.PUBLIC)
async def ready(context: AppContext) -> Response:
    """Return whether the service evaluates, reads its streams, and reaches the sources of its queries; 503 if not."""
    service = context.service
    away = {name: link.failure or "not connected yet" for name, link in service.links.items() if not link.connected}
    left_alone = context.status.left_alone(service)
    up = service.alive and not away and not left_alone
    answer = {"ready": up, "failed": dict(service.failures), "away": away, "left_alone": left_alone}
    return json_response(answer, 200 if up else 503)


@operation("GET", "/metrics", gives={"text/plain": None})
async def metrics(context: AppContext) -> Response:
    """Return metrics in the format of Prometheus."""
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)


OPERATIONS = [alive, ready, metrics]
