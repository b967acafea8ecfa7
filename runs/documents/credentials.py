"""Plain-text credentials in a document: found by shape and by key, never quoted (SE01, SE02, SE04)."""

import re
from collections.abc import Iterator

from benchsite.lib.canonical import Json, walk
from benchsite.lib.problems import Problem, path_of

_SHAPES = re.compile(
    r"""
    \bsk-[A-Za-z0-9_-]{8,}                                    # OpenAI and look-alikes
    | \b(ghp|gho|ghs|github_pat|glpat|hf|xox[abprs])[_-][A-Za-z0-9_-]{16,}
    | \b(AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[A-Za-z0-9_-]{30,}
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}             # JSON web tokens
    | (?i:\bbearer\s+[A-Za-z0-9._~+/=-]{8,}) | (?i:\bbasic\s+(?=\S*[0-9=])[A-Za-z0-9+/=]{8,})
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----
    | ://[^/?\#\s]*@                                          # user information in a URL
    """,
    re.VERBOSE,
)
_KEYS = re.compile(
    r"(x-)?(api[_-]?key|apikey|authorization|cookie|passw(or)?d|secret|(access|auth|bearer)?[_-]?token|private[_-]?key)",
    re.IGNORECASE,
)


def looks_like_credential(text: str) -> bool:
    """Whether a text has the shape of a credential, or of a URL with user information."""
    return _SHAPES.search(text) is not None


def credential_problems(document: Json) -> Iterator[Problem]:
    """A problem for each text that is shaped like a credential or stands under a key that names one."""
    for location, value in walk(document):
        if not isinstance(value, str) or not value:
            continue
        key = location[-1] if location else ""
        if looks_like_credential(value) or (isinstance(key, str) and _KEYS.fullmatch(key)):
            sentence = "a credential may stand in a file or an environment variable, never in a document"
            yield Problem(path_of(location), "credential_in_plaintext", sentence)
