"""Loading a profile by its schema's version; neither version's validator knows the other."""

from dataclasses import dataclass

from benchsite.lib.canonical import JsonObject, load_object, sha256
from benchsite.lib.problems import Problem, raise_if, refuse
from runs.documents.profile import v1, v2

_VALIDATORS = {v1.SCHEMA: v1.problems_of, v2.SCHEMA: v2.problems_of}
_FAMILY = "anvil-serving.benchmark-profile/"


@dataclass(frozen=True, slots=True)
class LoadedProfile:
    """A valid profile of any version. `content_sha256` is its identity, `file_sha256` that of the bytes."""

    schema: str
    name: str
    description: str
    content_sha256: str
    file_sha256: str
    document: JsonObject
    suites: tuple[str, ...]
    v2: v2.ProfileV2 | None

    @property
    def is_runnable(self) -> bool:
        """Whether its suites are installed here (those of v1 are not)."""
        return self.v2 is not None

    @property
    def not_runnable_because(self) -> str:
        """A sentence for people, or empty."""
        if self.is_runnable:
            return ""
        return (
            f"The suites {', '.join(self.suites)} of this profile are not installed here; it can be shown, not started."
        )


def load_profile(data: bytes) -> LoadedProfile:
    """The profile in a file's bytes; raises DocumentError with every problem, each with code and path."""
    document = load_object(data)
    raise_if(problems_of(document))
    schema = str(document["schema"])
    suites = document["suites"]
    return LoadedProfile(
        schema=schema,
        name=str(document["name"]),
        description=str(document["description"]),
        content_sha256=str(document["content_sha256"]),
        file_sha256=sha256(data),
        document=document,
        suites=tuple(suites) if isinstance(suites, dict) else (),
        v2=v2.parse(document) if schema == v2.SCHEMA else None,
    )


def problems_of(document: JsonObject) -> list[Problem]:
    """Everything that is wrong with a profile of a known version; raises for an unknown one."""
    schema = document.get("schema")
    if "schema" not in document:
        raise refuse("missing_schema", "the document does not say which schema it follows", "schema")
    if not isinstance(schema, str):
        raise refuse("bad_profile.wrong_type", "it is not a text", "schema")
    if schema not in _VALIDATORS:
        known = " and ".join(_VALIDATORS)
        code = "unknown_version" if schema.startswith(_FAMILY) else "unknown_schema"
        raise refuse(code, f"this is no schema that is read here; those are {known}", "schema")
    return _VALIDATORS[schema](document)


def require_runnable(profile: LoadedProfile) -> v2.ProfileV2:
    """The typed v2 profile; raises DocumentError `suite_not_installed` for a v1 one."""
    if profile.v2 is None:
        raise refuse("suite_not_installed", profile.not_runnable_because, "suites")
    return profile.v2
