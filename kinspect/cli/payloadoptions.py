"""`--payload` in the forms that rows have, and the schemas that payloads name."""

from __future__ import annotations

import click

from kinspect.cli.completions import files
from kinspect.cli.options import Option, payload_option
from kinspect.cli.rules import OptionRule
from kinspect.payloads.payloadforms import AS_THEY_ARE, FORMS

FORMS_HELP = "json: JSON where they are; auto: as what they are, with the schema that they name."
SCHEMA_REGISTRY = click.option(
    "--schema-registry",
    metavar="DIR|FILE",
    shell_complete=files,
    help="Schemas that keys and values name: files ID.avsc, ID.proto and ID.json, or a schema registry's export.",
)
PAYLOAD_RULES = (
    OptionRule("schema_registry", f"{{}} is for --payload {AS_THEY_ARE}", unless=f"payload={AS_THEY_ARE}"),
)


def form_option(text: str) -> Option:
    """`--payload`, one of the forms; `text`: how its help begins."""
    return payload_option(f"{text} {FORMS_HELP}", FORMS)
