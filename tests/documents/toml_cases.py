"""What a `task.toml` must never ask for: a replacement in a valid file, and the problem that must come of it."""

from typing import NamedTuple


class TomlCase(NamedTuple):
    """`old` is replaced by `new`; an empty `old` means that `new` is put at the end."""

    name: str
    old: str
    new: str
    code: str
    path: str


MODE = 'environment_mode = "separate"\n'
AGENT_NET = 'network_mode = "allowlist"\nallowed_hosts = ["model-gateway"]\n'
VERIFIER_NET = 'network_mode = "no-network"\n'
AGENT_IMAGE = 'docker_image = "benchsite-agent"\n'
VERIFIER_IMAGE = 'docker_image = "benchsite-verifier"\n'
ARTIFACTS = 'artifacts = ["/app/output"]\n'


def _in_environment(line: str, code: str, key: str) -> TomlCase:
    return TomlCase(f"environment.{key}", AGENT_IMAGE, f"{AGENT_IMAGE}{line}\n", code, f"environment.{key}")


def _at_end(text: str, code: str, path: str) -> TomlCase:
    return TomlCase(path, "", text, code, path)


CASES = [
    TomlCase(
        "shared verifier", MODE, 'environment_mode = "shared"\n', "task.shared_verifier", "verifier.environment_mode"
    ),
    TomlCase("no verifier mode", MODE, "", "task.shared_verifier", "verifier.environment_mode"),
    TomlCase(
        "another agent image",
        AGENT_IMAGE,
        'docker_image = "python:3.12"\n',
        "task.image_reference",
        "environment.docker_image",
    ),
    TomlCase(
        "a digest in the task",
        AGENT_IMAGE,
        f'docker_image = "x@sha256:{"a" * 64}"\n',
        "task.image_reference",
        "environment.docker_image",
    ),
    TomlCase(
        "another verifier image",
        VERIFIER_IMAGE,
        'docker_image = "benchsite-agent"\n',
        "task.image_reference",
        "verifier.environment.docker_image",
    ),
    TomlCase("no verifier image", VERIFIER_IMAGE, "", "task.image_reference", "verifier.environment.docker_image"),
    TomlCase(
        "public network",
        AGENT_NET,
        'network_mode = "public"\nallowed_hosts = ["model-gateway"]\n',
        "task.network",
        "environment.network_mode",
    ),
    TomlCase(
        "another host",
        'allowed_hosts = ["model-gateway"]',
        'allowed_hosts = ["packages.example"]',
        "task.network",
        "environment.allowed_hosts[0]",
    ),
    TomlCase(
        "two hosts",
        'allowed_hosts = ["model-gateway"]',
        'allowed_hosts = ["model-gateway", "model-gateway"]',
        "task.network",
        "environment.allowed_hosts",
    ),
    TomlCase(
        "verifier with a network",
        VERIFIER_NET,
        'network_mode = "public"\n',
        "task.network",
        "verifier.environment.network_mode",
    ),
    TomlCase("verifier without a policy", VERIFIER_NET, "", "task.network", "verifier.environment.network_mode"),
    TomlCase(
        "an agent phase network",
        "[agent]\n",
        '[agent]\nnetwork_mode = "public"\n',
        "task.network",
        "agent.network_mode",
    ),
    _in_environment("allow_internet = true", "task.network", "allow_internet"),
    _in_environment("gpus = 1", "task.gpu", "gpus"),
    _in_environment('gpu_types = ["H100"]', "task.gpu", "gpu_types"),
    _in_environment('tpu = {type = "v4", topology = "2x2"}', "task.gpu", "tpu"),
    _in_environment('mcp_servers = [{name = "x", url = "http://x"}]', "task.mcp_servers", "mcp_servers"),
    _in_environment('skills_dir = "/skills"', "task.skills", "skills_dir"),
    _in_environment('healthcheck = {command = "true"}', "task.healthcheck", "healthcheck"),
    _in_environment('env = {A = "b"}', "task.environment_variables", "env"),
    _in_environment("cpus = 4", "task.limit_in_task", "cpus"),
    _in_environment("memory_mb = 4096", "task.limit_in_task", "memory_mb"),
    _in_environment("storage_mb = 4096", "task.limit_in_task", "storage_mb"),
    _in_environment("privileged = true", "task.privileged", "privileged"),
    _in_environment('cap_add = ["SYS_ADMIN"]', "task.privileged", "cap_add"),
    _in_environment('mounts = ["/:/host"]', "task.host_setting", "mounts"),
    _in_environment('volumes = ["/:/host"]', "task.host_setting", "volumes"),
    _in_environment('pid = "host"', "task.host_setting", "pid"),
    _in_environment('os = "windows"', "task.host_setting", "os"),
    _in_environment('extra_docker_compose = ["x.yaml"]', "task.compose", "extra_docker_compose"),
    _in_environment('dockerfile = "Dockerfile"', "task.dockerfile", "dockerfile"),
    _in_environment('import_path = "x:Y"', "task.import_path", "import_path"),
    _in_environment('networkmode = "public"', "task.unknown_field", "networkmode"),
    _at_end('[[steps]]\nname = "one"\n', "task.multi_step", "steps"),
    _at_end('[solution.settings]\nx = "y"\n', "task.solution", "solution"),
    _at_end('[[verifier.collect]]\ncommand = "true"\n', "task.collect_hook", "verifier.collect"),
    _at_end('[task]\nname = "other/name"\n', "task.renamed", "task"),
    _at_end('[user_agent]\nname = "x"\n', "task.simulated_user", "user_agent"),
    _at_end('[plugins]\nx = "y"\n', "task.plugin", "plugins"),
    _at_end('[extra_config]\nx = "y"\n', "task.extra_config", "extra_config"),
    _at_end('[oracle]\nx = "y"\n', "task.agent", "oracle"),
    _at_end('[enviroment]\nx = "y"\n', "task.unknown_field", "enviroment"),
    TomlCase("another agent", "[agent]\n", '[agent]\nname = "oracle"\n', "task.agent", "agent.name"),
    TomlCase("a user", "[agent]\n", '[agent]\nuser = "root"\n', "task.host_setting", "agent.user"),
    TomlCase(
        "a misspelt mode",
        MODE,
        f'{MODE}enviroment_mode = "separate"\n',
        "task.unknown_field",
        "verifier.enviroment_mode",
    ),
    TomlCase("another schema version", '"1.4"', '"1.3"', "task.unexpected_value", "schema_version"),
    TomlCase("another note", "category = ", 'title2 = "x"\ncategory = ', "task.unknown_field", "metadata.title2"),
    TomlCase("a template", '"files-and-json"', '"${HOME}"', "task.host_variable", "metadata.category"),
    TomlCase("endless agent", "timeout_sec = 360.0", "timeout_sec = inf", "task.not_finite", "agent.timeout_sec"),
    TomlCase("slow agent", "timeout_sec = 360.0", "timeout_sec = 601", "task.above_maximum", "agent.timeout_sec"),
    TomlCase(
        "boolean time", "timeout_sec = 360.0", "timeout_sec = true", "task.boolean_as_number", "agent.timeout_sec"
    ),
    TomlCase("no artifacts", ARTIFACTS, "artifacts = []\n", "task.empty", "artifacts"),
    TomlCase("artifact outside", ARTIFACTS, 'artifacts = ["/etc/passwd"]\n', "task.artifact_source", "artifacts[0]"),
    TomlCase("artifact above", ARTIFACTS, 'artifacts = ["/app/../etc"]\n', "task.artifact_source", "artifacts[0]"),
    TomlCase("whole workdir", ARTIFACTS, 'artifacts = ["/app"]\n', "task.artifact_source", "artifacts[0]"),
    TomlCase("relative artifact", ARTIFACTS, 'artifacts = ["output"]\n', "task.artifact_source", "artifacts[0]"),
    TomlCase(
        "overlapping artifacts",
        ARTIFACTS,
        'artifacts = ["/app/o", "/app/o/x"]\n',
        "task.artifact_overlap",
        "artifacts[1]",
    ),
    TomlCase("a key twice", MODE, MODE + MODE, "task.bad_toml", ""),
]
