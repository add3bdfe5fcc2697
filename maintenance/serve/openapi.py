"""The OpenAPI document, made from the declarations of operations."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic.json_schema import models_json_schema

from freshkeeper.maintenance.serve.operation import Model, Operation, Role
from freshkeeper.maintenance.serve.problems import ProblemDetails

REFERENCE = "#/components/schemas/{model}"
CONVERTER = re.compile(r":\w+}")
PROBLEM = "application/problem+json"
ALWAYS = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)
GUARDED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
OF_BODIES = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.SERVICE_UNAVAILABLE)


def openapi(operations: Sequence[Operation]) -> dict[str, Any]:
    """Describe all operations with their parameters, bodies and responses."""
    models = {model for one in operations for model in _models(one)} | {ProblemDetails}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, schemas = models_json_schema([(model, "serialization") for model in ordered], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(CONVERTER.sub("}", one.path), {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {"title": "freshkeeper", "version": version("freshkeeper"), "description": "Continuous queries."},
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"word": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models(one: Operation) -> Iterable[Model]:
    return (model for table in (one.gives, one.takes) for model in table.values() if model is not None)


def _operation(one: Operation) -> dict[str, Any]:
    summary, _, more = one.summary.partition("\n")
    body = {"requestBody": {"required": True, "content": _content(one.takes)}} if one.takes else {}
    return {
        "operationId": one.name,
        "summary": summary,
        **({"description": more.strip()} if more.strip() else {}),
        "parameters": _parameters(one),
        **body,
        "responses": _responses(one),
        "security": [] if one.role is Role.PUBLIC else [{}, {"word": []}],
        "x-role": one.role.value,
    }


def _parameters(one: Operation) -> list[dict[str, Any]]:
    schema = one.parameters.model_json_schema()
    found = []
    for name, field in one.parameters.model_fields.items():
        alias = field.alias or name
        where = "header" if field.alias else "path" if _in_path(name, one.path) else "query"
        about = _schema(schema["properties"][alias])
        description = about.pop("description", "")
        parameter = {"name": alias, "in": where, "required": field.is_required(), "description": description}
        found.append(parameter | {"schema": about})
    return found


def _schema(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter; nothing in an address or a header is null."""
    found = {key: value for key, value in about.items() if key not in ("title", "anyOf")}
    for kind in about.get("anyOf", ()):
        found |= kind if kind.get("type") != "null" else {}
    return found if found.get("default", "") is not None else {k: v for k, v in found.items() if k != "default"}


def _in_path(name: str, path: str) -> bool:
    return re.search(rf"\{{{name}(:\w+)?\}}", path) is not None


def _responses(one: Operation) -> dict[str, Any]:
    guarded = () if one.role is Role.PUBLIC else GUARDED
    wrong = [*ALWAYS, *guarded, *(OF_BODIES if one.takes else ()), *one.problems]
    if one.role is Role.WRITE:
        wrong.append(HTTPStatus.SERVICE_UNAVAILABLE)
    problem = {PROBLEM: {"schema": {"$ref": REFERENCE.format(model=ProblemDetails.__name__)}}}
    good = {str(int(one.status)): {"description": one.status.phrase, "content": _content(one.gives)}}
    bad = {
        str(int(status)): {"description": status.phrase, **({"content": problem} if status >= 400 else {})}
        for status in sorted(set(wrong))
    }
    return good | bad


def _content(kinds: Mapping[str, Model | None]) -> dict[str, Any]:
    return {
        kind: {} if model is None else {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}
        for kind, model in kinds.items()
    }
