"""Ray's own check of a cluster-launcher file, with the lines that Ray does not tell."""

import copy
import io
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.resources import files
from typing import Any

from cudnn_sweep.cluster.errors import LaunchFileError
from cudnn_sweep.cluster.strict.mistakes import unknown_key
from cudnn_sweep.cluster.strict.strict_yaml import Document
from cudnn_sweep.cluster.strict.yaml_tree import Mistake


def check_ray_part(document: Document, ray_part: Mapping[str, object]) -> None:
    """Refuse what `ray up` would refuse. Raises LaunchFileError."""
    import jsonschema  # type: ignore[import-untyped]
    from ray.autoscaler._private import providers, util

    schema = json.loads(files("ray.autoscaler").joinpath("ray-schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    mistakes = [
        mistake
        for error in validator.iter_errors(ray_part)
        for mistake in _explain(error, document)
    ]
    if not mistakes:
        mistakes = list(_unknown_provider(document, ray_part, list(providers._NODE_PROVIDERS)))
    if mistakes:
        raise LaunchFileError("\n".join(mistake.show(document.file) for mistake in mistakes))

    try:
        with _unheard():
            util.validate_config(util.prepare_config(copy.deepcopy(dict(ray_part))))
    except Exception as error:  # whatever Ray meets: it has no error class for a user's mistake
        words = str(error) if " " in str(error) else f"{type(error).__name__} {error}"
        raise LaunchFileError(f"{document.file}: Ray refuses it: {words}") from error


@contextmanager
def _unheard() -> Iterator[None]:
    """Ray tells of each default that it fills in, and prints what it raises as well."""
    logger = logging.getLogger("ray.autoscaler")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)


def _explain(error: Any, document: Document) -> Iterator[Mistake]:
    """One of jsonschema's errors as mistakes of the file."""
    at = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        allowed = list(error.schema["properties"])
        for key in (str(key) for key in error.instance if key not in allowed):
            here = (*at, key)
            text = unknown_key(key, allowed)
            yield Mistake(line=document.line(here), key=here, text=f"{text} (Ray's schema)")
    else:
        yield Mistake(line=document.line(at), key=at, text=f"{error.message} (Ray's schema)")


def _unknown_provider(
    document: Document, ray_part: Mapping[str, object], known: list[str]
) -> Iterator[Mistake]:
    provider = ray_part["provider"]
    found = provider.get("type") if isinstance(provider, dict) else provider
    if found not in known:
        at = ("provider", "type")
        text = f"found `{found}`, Ray knows: {', '.join(sorted(known))}"
        yield Mistake(line=document.line(at), key=at, text=text)
