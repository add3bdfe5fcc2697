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
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _models(one: Operation) -> Iterable[Model]:
    return (model for table in (one.gives, one.takes) for model in table.values() if model is not None)


def _operation(one: Operation) -> dict[str, Any]:
    summary, _, more = one.summary.partition("\n")
    found: dict[str, Any] = {"operationId": one.name, "summary": summary}
    if more.strip():
        found["description"] = more.strip()
    found["parameters"] = _parameters(one)
    if one.takes:
        found["requestBody"] = {"required": True, "content": _content(one.takes)}
    found["responses"] = _responses(one)
    found["security"] = []
    if one.role is not Role.PUBLIC:
        found["security"] = [{}, {"token": []}]  # without a token in the config no request needs one
    found["x-role"] = one.role.value
    return found


def _parameters(one: Operation) -> list[dict[str, Any]]:
    schema = one.parameters.model_json_schema()
    found = []
    for name, field in one.parameters.model_fields.items():
        alias = field.alias or name
        where = "query"
        if field.alias:
            where = "header"
        elif _in_path(name, one.path):
            where = "path"
        about = _schema(schema["properties"][alias])
        description = about.pop("description", "")
        parameter = {"name": alias, "in": where, "required": field.is_required(), "description": description}
        found.append(parameter | {"schema": about})
    return found


def _schema(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter; nothing in an address or a header is null."""
    found = {key: value for key, value in about.items() if key not in ("title", "anyOf")}
    for kind in about.get("anyOf", ()):
        if kind.get("type") != "null":
            found |= kind
    if found.get("default", "") is None:
        del found["default"]
    return found


def _in_path(name: str, path: str) -> bool:
    return re.search(rf"\{{{name}(:\w+)?\}}", path) is not None


def _responses(one: Operation) -> dict[str, Any]:
    statuses = {*ALWAYS, *one.problems}
    if one.role is not Role.PUBLIC:
        statuses |= {*GUARDED}
    if one.takes:
        statuses |= {*OF_BODIES}
    if one.role is Role.WRITE:
        statuses.add(HTTPStatus.SERVICE_UNAVAILABLE)
    found: dict[str, Any] = {}
    found[str(int(one.status))] = {"description": one.status.phrase, "content": _content(one.gives)}
    for status in sorted(statuses):
        response: dict[str, Any] = {"description": status.phrase}
        if status >= HTTPStatus.BAD_REQUEST:
            response["content"] = _content({PROBLEM: ProblemDetails})
        found[str(int(status))] = response
    return found


def _content(kinds: Mapping[str, Model | None]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for kind, model in kinds.items():
        content[kind] = {}
        if model is not None:
            content[kind] = {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}
    return content
