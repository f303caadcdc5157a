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
from cudnn_sweep.cluster.strict.document import Document, Mistake
from cudnn_sweep.cluster.strict.strict_yaml import unknown_key


def check_ray_part(document: Document, ray_part: Mapping[str, object]) -> None:
    """Refuse what `ray up` would refuse. Raises LaunchFileError."""
    import jsonschema  # type: ignore[import-untyped]
    from ray.autoscaler._private import providers, util

    schema = json.loads(files("ray.autoscaler").joinpath("ray-schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    mistakes = [mistake for error in validator.iter_errors(ray_part) for mistake in _explain(error)]
    provider = ray_part.get("provider")
    if (
        not mistakes
        and isinstance(provider, dict)
        and provider["type"] not in providers._NODE_PROVIDERS
    ):
        known = ", ".join(sorted(providers._NODE_PROVIDERS))
        mistakes = [(("provider", "type"), f"found `{provider['type']}`, Ray knows: {known}")]
    if mistakes:
        raise document.refusal(mistakes)

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


def _explain(error: Any) -> Iterator[Mistake]:
    """One of jsonschema's errors as mistakes of the file."""
    at = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        allowed = error.schema["properties"]
        for key in (str(key) for key in error.instance if key not in allowed):
            yield (*at, key), f"{unknown_key(key, allowed)} (Ray's schema)"
    else:
        yield at, f"{error.message} (Ray's schema)"
