"""What is not proved of a trial: the proofs that an environment run here has and that one lacks. Pure."""

from evidence.imports.outcomes import Source

# Each proof by its code, and what is not known without it.
PROOFS = {
    "executed_here": "a worker of this site carried it out",
    "agent_reviewed": "agent and image are reviewed and locked",
    "task_reviewed": "the task's files are reviewed and were hashed again when they were used",
    "isolated": "the agent could reach nothing but its model",
    "model_recorded": "each request to the model stands in a ledger that the agent cannot write",
    "graded_apart": "a verifier of its own, which the agent never touched, graded it",
    "reward_copied": "the reward is our own copy out of the verifier's container",
    "clean_end": "everything that was created is known and gone",
}
_SEEN_IN_SUITES = frozenset({"executed_here", "reward_copied", "clean_end"})


def unproved(source: str, *, verifier_mode: str = "") -> tuple[tuple[str, ...], str]:
    """The codes of the proofs that are missing, and one sentence that says so; both empty for an environment run.

    `verifier_mode` is `separate` or `shared` where that is known: in a suite that a worker here carried out, it decides
    whether the agent could touch what graded it. Of a trial that ran elsewhere, nothing is proved by what it reports.
    """
    if source == Source.ENVIRONMENT:
        return (), ""
    missing = [code for code in PROOFS if source != Source.SUITE or code not in _SEEN_IN_SUITES]
    if source == Source.SUITE and verifier_mode == "separate":
        missing.remove("graded_apart")
    words = "; ".join(f"that {PROOFS[code]}" for code in missing)
    who = "A worker here saw this" if source == Source.SUITE else "Somebody else's Harbor reported this"
    return tuple(missing), f"{who}. Not proved: {words}."
