"""The credentials that a run's evidence can be searched for: those that can be told from the run's own words."""

from runs.checks.check import Check

SHORTEST_SEARCHED = 8
EVIDENCE_CHECK = "credential in evidence"
# Names that Harbor and we give to fields and files of every run, of eight characters and more, beside those of a spec.
RUN_WORDS = """
agent_execution agent_info agent_result agent_setup_timeout_multiplier agent_timeout_multiplier
AgentAuthenticationError AgentSafetyRefusalError AgentTimeoutError ApiUsageLimitError benchsite-placeholder
benchsite.environment-plan/v1 bridge_inputs concurrency_group config.json cost_tracking cost_usd
cpu_enforcement_policy created_at datasets download_dir environment.json environment_build_timeout_multiplier
environment_setup exception_info exception_stats exclude_exceptions exec_output_bytes extra_allowed_hosts
extra_docker_compose extra_instruction_paths extra_instructions finished_at force_build gateway_host gateway_ip
git_commit_id harbor.log ignore_errors image_id import_path is_editable job_name jobs_dir journal.json
journal_directory kept/agent/ kept/artifacts/ kept/verifier/ ledger.jsonl load_trajectory lock.json manifest.json
max_retries max_timeout_sec max_tokens max_wait_sec mcp_servers memory_enforcement_policy metadata min_wait_sec
mini-swe-agent.trajectory.json mini-swe-agent.txt model-gateway model_info model_kwargs model_name
ModelNotFoundError n_attempts n_cache_tokens n_cancelled_trials n_completed_trials n_concurrent_trials
n_errored_trials n_errors n_input_tokens n_output_tokens n_pending_trials n_retries n_running_trials n_total_trials
n_trials network_id network_name observed.jsonl OPENAI_API_KEY OPENAI_BASE_URL override_cpus override_gpus
override_memory_mb override_setup_timeout_sec override_storage_mb override_timeout_sec override_tpu overwrite
pass_at_k placeholder provider resume_trajectory reward_stats RewardFileEmptyError RewardFileNotFoundError
rollout_details run.json runs.harness.environment:OwnedEnvironment schema_version source_jobs source_trial spec.json
started_at step_limit step_results supervision.json task_checksum task_name test-stdout.txt transfer_bytes
transfer_files trial.log trial_name trial_uri trials_dir updated_at user_agent verifier_environment_mode
verifier_result verifier_timeout_multiplier VerifierOutputParseError VerifierTimeoutError wait_multiplier
"""


def why_not_searched(value: str, *documents: str) -> str:
    """Why this credential cannot be taken out of a run's evidence without damage to it; empty when it can.

    `documents` are texts that the run has from the start (spec, manifest): what stands in them stands all over the
    evidence, and is compared there.
    """
    folded = value.strip().casefold()
    if len(folded) < SHORTEST_SEARCHED:
        return f"shorter than {SHORTEST_SEARCHED} characters"
    stands = any(folded in document.casefold() for document in (*documents, RUN_WORDS))
    return "a word of the run's own documents" if stands else ""


def evidence_check(value: str, *documents: str) -> Check:
    """Whether the credential will be looked for in the evidence. Only a note: what is no secret harms nobody there."""
    if reason := why_not_searched(value, *documents):
        return Check(
            EVIDENCE_CHECK,
            False,
            "credential.not_searched",
            f"The endpoint's credential is {reason}, so the run's evidence is not searched for it.",
            "Give the endpoint a longer random key if it is a secret. If it is none, leave it, or register none.",
            "note",
        )
    detail = "The endpoint's credential will be taken out of whatever an agent, Harbor or the endpoint writes."
    return Check(EVIDENCE_CHECK, True, "credential.searched", detail)
