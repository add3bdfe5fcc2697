"""Health checks and metrics, for process managers and Prometheus."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from freshkeeper.maintenance.serve.app_context import AppContext, json_response
from freshkeeper.maintenance.serve.operation import Role, operation

MAX_STALL_S = 60.0
"""How long the engine may take for one step before the process counts as stuck."""
MAX_LAG_S = 5.0
"""How long it may take before the service counts as behind."""


@operation("GET", "/healthz", Role.PUBLIC)
async def alive(context: AppContext) -> Response:
    """Return whether the thread that evaluates queries runs and gets on; 503 if not, with the reason."""
    service = context.service
    why = "" if service.alive else "the thread that evaluates queries has ended"
    stalled_s = service.busy_for()
    if stalled_s > MAX_STALL_S:
        why = f"the engine has taken {stalled_s:.0f} s for one step, at the query {service.at_work or '(none)'}"
    return json_response({"alive": not why, "why": why}, 503 if why else 200)


@operation("GET", "/readyz", Role.PUBLIC)
async def ready(context: AppContext) -> Response:
    """Return whether all queries run and are up to date, and streams and sources are reached; 503 if not, and why."""
    service = context.service
    away = {name: link.failure or "not connected yet" for name, link in service.links.items() if not link.connected}
    left_alone = context.status.left_alone(service)
    late_s = service.busy_for()
    late = f"one step has taken {late_s:.1f} s so far" if late_s > MAX_LAG_S else ""
    failed = dict(service.failures)
    up = service.alive and not (away or left_alone or failed or late or service.blocked)
    answer = {"ready": up, "failed": failed, "away": away, "left_alone": left_alone}
    answer |= {"behind": late, "blocked": service.blocked}
    return json_response(answer, 200 if up else 503)


@operation("GET", "/metrics", gives={"text/plain": None})
async def metrics(context: AppContext) -> Response:
    """Return metrics in the format of Prometheus."""
    return Response(generate_latest(context.metrics.registry), media_type=CONTENT_TYPE_LATEST)


OPERATIONS = [alive, ready, metrics]
