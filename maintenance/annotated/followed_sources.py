"""Creates followed sources from an address or from the YAML file of a source of fragments."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pyoxigraph import NamedNode

from freshkeeper.maintenance.annotated.annotated_source import AnnotatedSource
from freshkeeper.maintenance.annotated.page_requests import PageRequests
from freshkeeper.maintenance.base.errors import ConfigError
from freshkeeper.maintenance.sources.fragments.annotation_style import AnnotationStyle
from freshkeeper.maintenance.sources.source_config import SourceConfig, config_of, read_config
from freshkeeper.maintenance.sources.sources import FRAGMENTS, fragments_of, limiter_of


def read_source(written: str) -> SourceConfig:
    """Return the configuration for an address or a file."""
    if not written.lower().endswith((".yaml", ".yml")):
        return config_of({"fragments": written}, "--source")
    config = read_config(Path(written))
    if config.kind != "fragments":
        raise ConfigError(f"{written} is a source of kind {config.kind}; only fragments can be followed")
    return config


def all_fragments(sources: Iterable[str | SourceConfig]) -> list[SourceConfig]:
    """Return the configurations of sources if all of them are fragments, otherwise an empty list."""
    found = []
    for written in sources:
        if isinstance(written, str) and written.lower().startswith(FRAGMENTS):
            found.append(config_of({"fragments": written[len(FRAGMENTS) :]}, "--source"))
        elif not isinstance(written, str):
            found.append(written)
        elif written.lower().endswith((".yaml", ".yml")):
            found.append(read_config(Path(written)))
        else:
            return []
    if all(config.kind == "fragments" for config in found):
        return found
    return []


def annotated_source_of(config: SourceConfig, style: AnnotationStyle | None, keep: bool) -> AnnotatedSource:
    """Create a source with its limits, its circuit breaker and its price."""
    credentials = config.auth.read().hiding(config.addresses)
    client = replace(fragments_of(config, credentials), cached=keep and config.reuse)
    limits = limiter_of(config), config.retries, config.timeout / 1000, config.per_request
    requests = PageRequests(*limits, credentials.mask)
    return AnnotatedSource(client, style, keep, requests=requests)


def declared_dynamic(configs: Sequence[SourceConfig]) -> frozenset[NamedNode] | None:
    """Return the dynamic predicates if every source declares its own, otherwise None."""
    if not all(config.volatile for config in configs):
        return None
    return frozenset(NamedNode(iri) for config in configs for iri in config.volatile)
