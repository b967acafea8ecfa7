"""The corpus of documents that are refused: what is wrong, and the code and path that say so."""

from typing import Any, NamedTuple

from tests.documents.samples import HEX, IMAGE, Change, both, drop, put

SUITE = ("suites", "environment")
CONTEXT = ("suites", "context")


class Case(NamedTuple):
    """A change of a valid document, and the one problem that must come of it."""

    name: str
    change: Change
    code: str
    path: str


def _field(place: tuple[str | int, ...], value: Any, code: str, name: str = "") -> Case:
    path = ".".join(map(str, place))
    return Case(name or f"{path}={value!r}"[:70], put(*place, value=value), code, path)


def _missing(*place: str, code: str = "bad_profile.missing_field") -> Case:
    return Case(f"no {'.'.join(place)}", drop(*place), code, ".".join(place))


PROFILE_V2 = [
    _field((*SUITE, "max_steps"), 40, "bad_profile.above_maximum"),
    _field((*SUITE, "max_steps"), 0, "bad_profile.below_minimum"),
    _field((*SUITE, "max_steps"), True, "bad_profile.boolean_as_number"),
    _field((*SUITE, "max_steps"), 8.0, "bad_profile.fraction_as_integer"),
    _field((*SUITE, "max_steps"), "8", "bad_profile.wrong_type"),
    _field((*SUITE, "max_steps"), None, "bad_profile.wrong_type"),
    _field((*SUITE, "max_completion_tokens"), 4097, "bad_profile.above_maximum"),
    _field((*SUITE, "max_completion_tokens"), -1, "bad_profile.below_minimum"),
    _field((*SUITE, "max_completion_tokens"), 4096.0, "bad_profile.fraction_as_integer"),
    _field((*SUITE, "max_trial_seconds"), 601, "bad_profile.above_maximum"),
    _field((*SUITE, "max_trial_seconds"), 9, "bad_profile.below_minimum"),
    _field((*SUITE, "timeout_s"), 1801, "bad_profile.above_maximum"),
    Case(
        "a trial longer than the run",
        put(*SUITE, "timeout_s", value=500),
        "bad_profile.longer_than_run",
        "suites.environment.max_trial_seconds",
    ),
    _field((*SUITE, "repetitions"), 2, "bad_profile.above_maximum"),
    _field((*SUITE, "repetitions"), True, "bad_profile.boolean_as_number"),
    _field((*SUITE, "repetitions"), 1.0, "bad_profile.fraction_as_integer"),
    _field((*SUITE, "max_concurrent_trials"), 4, "bad_profile.above_maximum"),
    _field((*SUITE, "max_attempts"), 0, "bad_profile.below_minimum"),
    _field((*SUITE, "max_attempts"), True, "bad_profile.boolean_as_number"),
    _field((*SUITE, "cases"), [], "bad_profile.empty"),
    _field((*SUITE, "cases"), ["a", "b", "c", "d"], "bad_profile.too_long"),
    _field((*SUITE, "cases"), "ledger-totals", "bad_profile.wrong_type"),
    _field((*SUITE, "cases"), {"a": 1}, "bad_profile.wrong_type", name="cases is an object"),
    Case(
        "a case twice",
        put(*SUITE, "cases", value=["a", "b", "a"]),
        "bad_profile.repeated",
        "suites.environment.cases[2]",
    ),
    *[
        Case(f"case named {label}", put(*SUITE, "cases", 1, value=name), code, "suites.environment.cases[1]")
        for label, name, code in [
            ("with 200 characters", "a" * 200, "name.too_long"),
            ("in Greek", "αβγ", "name.not_ascii"),
            ("..", "..", "name.bad_form"),
            ("CON", "con", "name.reserved"),
            ("in upper case", "Ledger-Totals", "name.bad_form"),
            ("with a slash", "a/b", "name.bad_form"),
            ("nothing", "", "name.bad_form"),
            ("with a line end", "ledger-totals\n", "name.bad_form"),
            ("12", 12, "bad_profile.wrong_type"),
        ]
    ],
    _missing(*SUITE, "scoring", code="missing_scoring_policy"),
    _missing(*SUITE, "scoring", "pass_rate_floor", code="missing_scoring_policy"),
    _missing(*SUITE, "scoring", "reward_key", code="missing_scoring_policy"),
    _field((*SUITE, "scoring", "pass_rate_floor"), 1.5, "bad_profile.above_maximum"),
    _field((*SUITE, "scoring", "pass_rate_floor"), -0.1, "bad_profile.below_minimum"),
    _field((*SUITE, "scoring", "pass_rate_floor"), True, "bad_profile.boolean_as_number"),
    _field((*SUITE, "scoring", "pass_rate_floor"), "1.0", "bad_profile.wrong_type"),
    _field((*SUITE, "scoring", "pass_value"), 0, "bad_profile.below_minimum"),
    _field((*SUITE, "scoring", "pass_value"), True, "bad_profile.boolean_as_number"),
    _field((*SUITE, "scoring", "pass_value"), 1.0, "bad_profile.fraction_as_integer"),
    _field((*SUITE, "scoring", "fail_value"), False, "bad_profile.boolean_as_number"),
    _field((*SUITE, "scoring", "fail_value"), -1, "bad_profile.below_minimum"),
    _field((*SUITE, "scoring", "reward_key"), "Reward", "bad_profile.unexpected_value"),
    _field((*SUITE, "scoring", "weights"), [1], "bad_profile.unknown_field"),
    _field((*SUITE, "requirements"), [], "bad_profile.wrong_type"),
    _field((*SUITE, "requirements", "gpu"), 1, "bad_profile.unknown_field"),
    _field((*SUITE, "requirements", "min_free_disk_bytes"), -1, "bad_profile.below_minimum"),
    _field((*SUITE, "requirements", "container_required"), 1, "bad_profile.wrong_type"),
    Case(
        "an adapter nobody defined",
        put(*SUITE, "adapters", 0, value="ghost"),
        "bad_profile.undefined_adapter",
        "suites.environment.adapters[0]",
    ),
    Case(
        "an adapter twice",
        put(*SUITE, "adapters", value=["harbor", "harbor"]),
        "bad_profile.repeated",
        "suites.environment.adapters[1]",
    ),
    _field((*SUITE, "agent", "name"), "oracle", "unknown_agent"),
    _field((*SUITE, "agent", "name"), 1, "unknown_agent"),
    _field((*SUITE, "agent", "version"), "latest", "bad_profile.bad_format"),
    _field((*SUITE, "agent", "version"), 2.4, "bad_profile.wrong_type"),
    _field((*SUITE, "agent", "import_path"), "x:Y", "bad_profile.unknown_field"),
    _field((*SUITE, "agent"), "mini-swe-agent", "bad_profile.wrong_type"),
    _missing(*SUITE, "agent"),
    _missing(*SUITE, "task_bundle"),
    _missing(*SUITE, "max_steps"),
    _field((*SUITE, "task_bundle", "manifest_sha256"), "latest", "bad_profile.bad_format"),
    _field((*SUITE, "task_bundle", "manifest_sha256"), "A" * 64, "bad_profile.bad_format", name="upper-case hash"),
    _field((*SUITE, "task_bundle", "revision"), 0, "bad_profile.below_minimum"),
    _field((*SUITE, "task_bundle", "revision"), "1", "bad_profile.wrong_type"),
    _field((*SUITE, "task_bundle", "name"), "../other", "bad_profile.bad_format"),
    _field((*SUITE, "reasoning_effort"), "high", "bad_profile.unknown_field"),
    _field((*SUITE, "instance_limit"), 1, "bad_profile.unknown_field"),
    _field(("suites", "swe"), {}, "unknown_suite"),
    _field(("suites", "Environment"), {}, "unknown_suite"),
    Case("a suite with an odd name", put("suites", "a.b", value={}), "unknown_suite", 'suites["a.b"]'),
    _missing(*SUITE),
    _missing("suites"),
    _field(("suites",), [], "bad_profile.wrong_type"),
    _missing("name"),
    _missing("description"),
    _missing("content_sha256"),
    Case(
        "no adapters",
        both(drop("adapters"), put(*SUITE, "adapters", value=[])),
        "bad_profile.missing_field",
        "adapters",
    ),
    _field(("name",), "smoke", "bad_profile.unexpected_value"),
    _field(("name",), 2, "bad_profile.unexpected_value"),
    _field(("description",), "", "bad_profile.empty"),
    _field(("description",), "x" * 2001, "bad_profile.too_long", name="a long description"),
    _field(("notes",), "x", "bad_profile.unknown_field"),
    Case(
        "no adapter at all",
        both(put("adapters", value={}), put(*SUITE, "adapters", value=[])),
        "bad_profile.empty",
        "adapters",
    ),
    _field(("adapters", "harbor", "revision"), "main", "mutable_adapter"),
    _field(("adapters", "harbor", "revision"), "v0.22.0", "mutable_adapter"),
    _field(("adapters", "harbor", "revision"), "5c364a5", "mutable_adapter", name="a short commit"),
    _field(("adapters", "harbor", "revision"), "a" * 41, "mutable_adapter", name="41 digits"),
    _field(("adapters", "harbor", "revision"), "A" * 40, "mutable_adapter", name="an upper-case commit"),
    _field(("adapters", "harbor", "source"), "http://x.example", "bad_profile.bad_format"),
    _field(("adapters", "harbor", "source"), "https://u:p@x.example", "bad_profile.bad_format"),
    _field(("adapters", "harbor", "branch"), "main", "bad_profile.unknown_field"),
    _field(("adapters", "harbor", "kind"), "zip", "bad_profile.unexpected_value"),
    Case("an adapter without a kind", put("adapters", "x", value={}), "bad_profile.missing_field", "adapters.x.kind"),
    Case(
        "an image by tag",
        put("adapters", "x", value={"kind": "image", "image": "base:3.12"}),
        "mutable_image",
        "adapters.x.image",
    ),
    Case(
        "an image by latest",
        put("adapters", "y", value={"kind": "image", "image": "base"}),
        "mutable_image",
        "adapters.y.image",
    ),
    Case(
        "an image by short digest",
        put("adapters", "z", value={"kind": "image", "image": "base@sha256:abc"}),
        "mutable_image",
        "adapters.z.image",
    ),
    Case(
        "an adapter with a bad name",
        put("adapters", "A B", value={"kind": "image", "image": IMAGE}),
        "bad_profile.bad_format",
        'adapters["A B"]',
    ),
]

PROFILE_V1 = [
    _field(("name",), "environment-smoke", "bad_profile.unexpected_value"),
    _field(("description",), "", "bad_profile.empty"),
    _field(("extra",), 1, "bad_profile.unknown_field"),
    _field(("suites", "environment"), {}, "unknown_suite"),
    _missing("suites", "swe"),
    _missing("suites", "context", "scoring", code="missing_scoring_policy"),
    _missing("suites", "agentic", "scoring", "pass_rate_floor", code="missing_scoring_policy"),
    Case(
        "an empty scoring",
        put("suites", "swe", "scoring", value={}),
        "missing_scoring_policy",
        "suites.swe.scoring.pass_rate_floor",
    ),
    _field((*CONTEXT, "scoring", "pass_rate_floor"), 2, "bad_profile.above_maximum"),
    _field((*CONTEXT, "scoring", "pass_rate_floor"), False, "bad_profile.boolean_as_number"),
    _field((*CONTEXT, "scoring", "baseline_bucket"), 9000, "bad_profile.unknown_bucket"),
    _field((*CONTEXT, "scoring", "max_relative_drop"), 1.2, "bad_profile.above_maximum"),
    _field((*CONTEXT, "token_buckets"), [32768, 8192], "bad_profile.not_ascending"),
    _field((*CONTEXT, "token_buckets"), [8192, 8192], "bad_profile.not_ascending"),
    Case(
        "a tiny bucket",
        put(*CONTEXT, "token_buckets", value=[127, 8192]),
        "bad_profile.below_minimum",
        "suites.context.token_buckets[0]",
    ),
    Case(
        "a huge bucket",
        put(*CONTEXT, "token_buckets", value=[8192, 1048577]),
        "bad_profile.above_maximum",
        "suites.context.token_buckets[1]",
    ),
    Case(
        "a boolean bucket",
        put(*CONTEXT, "token_buckets", value=[True]),
        "bad_profile.boolean_as_number",
        "suites.context.token_buckets[0]",
    ),
    Case(
        "a position outside",
        put(*CONTEXT, "positions", value=[1.1]),
        "bad_profile.above_maximum",
        "suites.context.positions[0]",
    ),
    _field((*CONTEXT, "positions"), [], "bad_profile.empty"),
    _field((*CONTEXT, "output_headroom_tokens"), 65537, "bad_profile.above_maximum"),
    _field((*CONTEXT, "max_steps"), 3, "bad_profile.unknown_field"),
    _field((*CONTEXT, "repetitions"), 21, "bad_profile.above_maximum"),
    _field((*CONTEXT, "repetitions"), True, "bad_profile.boolean_as_number"),
    _field((*CONTEXT, "repetitions"), 1.0, "bad_profile.fraction_as_integer"),
    _field((*CONTEXT, "timeout_s"), 604801, "bad_profile.above_maximum"),
    _field((*CONTEXT, "cases"), [], "bad_profile.empty"),
    _field((*CONTEXT, "requirements"), None, "bad_profile.wrong_type"),
    Case(
        "an adapter nobody defined",
        put("suites", "swe", "adapters", value=["ghost"]),
        "bad_profile.undefined_adapter",
        "suites.swe.adapters[0]",
    ),
    _field(("suites", "agentic", "max_steps"), 1001, "bad_profile.above_maximum"),
    _field(("suites", "agentic", "max_completion_tokens"), 65537, "bad_profile.above_maximum"),
    _field(("suites", "agentic", "instance_limit"), 5, "bad_profile.unknown_field"),
    _field(("suites", "swe", "instance_limit"), 501, "bad_profile.above_maximum"),
    _missing("suites", "swe", "instance_limit"),
    _field(("adapters", "ruler", "revision"), "main", "mutable_adapter"),
    _field(("adapters", "ruler", "revision"), "a" * 39, "mutable_adapter", name="39 digits"),
    _field(("adapters", "ruler", "revision"), "a" * 65, "mutable_adapter", name="65 digits"),
    _field(("adapters", "ruler", "source"), "git@x.example:y", "bad_profile.bad_format"),
    _field(("adapters", "ruler", "tag"), "v1", "bad_profile.unknown_field"),
    _missing("adapters", "ruler", "revision"),
    _field(("adapters", "worker-base", "image"), "python:3.12", "mutable_image"),
    _field(
        ("adapters", "worker-base", "image"), "python@sha256:" + "A" * 64, "mutable_image", name="upper-case digest"
    ),
    _field(("adapters", "worker-base", "revision"), HEX, "bad_profile.unknown_field"),
    _field(("adapters", "mrcr", "kind"), "zip", "bad_profile.unexpected_value"),
]

ENDPOINT = [
    _field(("base_url",), "http://u:SENTINEL@h.example/v1", "endpoint.user_info"),
    _field(("base_url",), "http://u@h.example/v1", "endpoint.user_info"),
    _field(("base_url",), "http://h.example/v1?key=SENTINEL", "endpoint.query"),
    _field(("base_url",), "http://h.example/v1?", "endpoint.query"),
    _field(("base_url",), "http://h.example/v1#x", "endpoint.fragment"),
    _field(("base_url",), "ftp://h.example/v1", "endpoint.bad_url"),
    _field(("base_url",), "h.example/v1", "endpoint.bad_url"),
    _field(("base_url",), "http:///v1", "endpoint.bad_url"),
    _field(("base_url",), "http://h.example:99999/v1", "endpoint.bad_url"),
    _field(("base_url",), "http://h.example:0/v1", "endpoint.bad_url"),
    _field(("base_url",), "http://h.example /v1", "endpoint.bad_url"),
    _field(("base_url",), "http://h.example\\@evil.example/v1", "endpoint.bad_url"),
    _field(("base_url",), "http://mödel.example/v1", "endpoint.bad_url"),
    _field(("base_url",), "http://h.example/v1\n", "endpoint.bad_url"),
    _field(("base_url",), "http://-h.example/v1", "endpoint.bad_host"),
    _field(("base_url",), "http://h..example/v1", "endpoint.bad_host"),
    _field(("base_url",), "http://169.254.169.254/v1", "endpoint.bad_host"),
    _field(("base_url",), "http://h.example/v1/", "endpoint.bad_path"),
    _field(("base_url",), "http://h.example/../v1", "endpoint.bad_path"),
    _field(("base_url",), "http://h.example/%2e%2e/v1", "endpoint.bad_path"),
    _field(("base_url",), "http://h.example//v1", "endpoint.bad_path"),
    _field(("base_url",), "http://10.1/v1", "endpoint.odd_address"),
    _field(("base_url",), "", "bad_endpoint.empty"),
    _field(("base_url",), 5, "bad_endpoint.wrong_type"),
    *[
        _field(("base_url",), f"http://{host}:8000/v1", "endpoint.loopback_without_route")
        for host in ("127.0.0.1", "localhost", "[::1]", "127.9.9.9", "a.localhost", "0.0.0.0", "LocalHost")
    ],
    Case(
        "host-gateway to another host", put("route", value="host-gateway"), "endpoint.route_without_loopback", "route"
    ),
    _field(("route",), "proxy", "bad_endpoint.unexpected_value"),
    _missing("route", code="bad_endpoint.missing_field"),
    _field(("model",), "", "bad_endpoint.bad_format"),
    _field(("model",), "a b", "bad_endpoint.bad_format"),
    _field(("model",), "m\nx", "bad_endpoint.bad_format"),
    _field(("served_model",), 7, "bad_endpoint.wrong_type"),
    _field(("credential", "kind"), "inline", "bad_endpoint.unexpected_value"),
    Case("a bare credential", put("credential", value="MODEL_KEY"), "bad_endpoint.wrong_type", "credential"),
    _field(("credential", "name"), "model-key", "bad_endpoint.bad_format"),
    _field(("credential", "name"), "DATABASE_URL", "endpoint.reserved_variable"),
    _field(("credential", "name"), "DJANGO_SETTINGS_MODULE", "endpoint.reserved_variable"),
    _field(("credential", "name"), "BENCHSITE_SECRET_KEY", "endpoint.reserved_variable"),
    _field(("credential", "value"), "x", "bad_endpoint.unknown_field"),
    Case(
        "a relative file",
        put("credential", value={"kind": "file", "name": "key.txt"}),
        "bad_endpoint.bad_format",
        "credential.name",
    ),
    Case(
        "a file above",
        put("credential", value={"kind": "file", "name": "/a/../b"}),
        "bad_endpoint.bad_format",
        "credential.name",
    ),
    Case(
        "a name for none",
        put("credential", value={"kind": "none", "name": "X"}),
        "bad_endpoint.wrong_type",
        "credential.name",
    ),
    Case(
        "a control nobody knows",
        put("controls", value=["max_tokens", "magic"]),
        "bad_endpoint.unexpected_value",
        "controls[1]",
    ),
    Case("a control twice", put("controls", value=["seed", "seed"]), "bad_endpoint.repeated", "controls[1]"),
    _field(("controls",), "max_tokens", "bad_endpoint.wrong_type"),
    _field(("request_timeout_s",), 601, "bad_endpoint.above_maximum"),
    _field(("request_timeout_s",), True, "bad_endpoint.boolean_as_number"),
    _field(("scripted",), 1, "bad_endpoint.wrong_type"),
    _field(("headers",), {}, "bad_endpoint.unknown_field"),
    _field(("name",), "Local Model", "bad_endpoint.bad_format"),
    _field(("schema",), "benchsite.endpoint/v3", "unknown_schema"),
    _field(("served_models",), ["other"], "bad_endpoint.unknown_field"),
    _field(("private_addresses",), "allowed", "bad_endpoint.unknown_field"),
]

ROLE = ("ceilings", "agent")
TASK = ("tasks", 0)
MANIFEST = [
    _field(("schema",), "benchsite.task-bundle/v2", "unknown_schema"),
    _field(("name",), "Environment Smoke", "bad_bundle.bad_format"),
    _field(("revision",), 0, "bad_bundle.below_minimum"),
    _field(("revision",), True, "bad_bundle.boolean_as_number"),
    _field(("reviewed",), True, "bad_bundle.unknown_field"),
    _missing("images", "gateway", code="bad_bundle.missing_field"),
    _field(
        ("images", "probe"),
        {"name": "benchsite-probe", "recipe_sha256": HEX, "content_sha256": HEX},
        "bad_bundle.unknown_field",
        name="a fourth role",
    ),
    _field(("images", "agent", "name"), "benchsite-verifier", "bad_bundle.image_name"),
    _field(("images", "agent", "recipe_sha256"), "latest", "bad_bundle.bad_format"),
    _field(("images", "agent", "image_id"), f"sha256:{HEX}", "bad_bundle.unknown_field"),
    _field(("agent", "name"), "oracle", "bad_bundle.unexpected_value"),
    _field(("agent", "version"), "latest", "bad_bundle.bad_format"),
    _field(("verifier", "environment_mode"), "shared", "bad_bundle.unexpected_value"),
    _field(("verifier", "network"), "public", "bad_bundle.unexpected_value"),
    _field(("verifier", "reward_file"), "result.json", "bad_bundle.unexpected_value"),
    _field(("verifier", "privileged"), True, "bad_bundle.unknown_field"),
    _field((*ROLE, "cpus"), 17, "bad_bundle.above_maximum"),
    _field((*ROLE, "cpus"), True, "bad_bundle.boolean_as_number"),
    _field((*ROLE, "memory_bytes"), 400 << 20, "bad_bundle.memory_too_small"),
    _field((*ROLE, "memory_bytes"), 65 << 30, "bad_bundle.above_maximum"),
    _field((*ROLE, "pids"), 4, "bad_bundle.below_minimum"),
    _field((*ROLE, "nofile"), 70000, "bad_bundle.above_maximum"),
    _field((*ROLE, "gpus"), 1, "bad_bundle.unknown_field"),
    Case(
        "a writable path above",
        put(*ROLE, "tmpfs", value={"/a/../b": 1 << 20}),
        "bad_bundle.bad_format",
        'ceilings.agent.tmpfs["/a/../b"]',
    ),
    Case(
        "a tiny writable path",
        put(*ROLE, "tmpfs", value={"/app": 10}),
        "bad_bundle.below_minimum",
        'ceilings.agent.tmpfs["/app"]',
    ),
    _field(("ceilings", "download_bytes"), 1, "bad_bundle.above_maximum"),
    _field(("ceilings", "phases", "agent_s"), 0, "bad_bundle.below_minimum"),
    _missing("ceilings", "phases", code="bad_bundle.missing_field"),
    _field(("ceilings", "overhead_s"), 10, "bad_bundle.below_minimum"),
    _field(("tasks",), [], "bad_bundle.empty"),
    Case("a task's checksum", put(*TASK, "checksum", value=HEX), "bad_bundle.hash_mismatch", "tasks[0].checksum"),
    Case(
        "a task's file hash", put(*TASK, "files_sha256", value=HEX), "bad_bundle.hash_mismatch", "tasks[0].files_sha256"
    ),
    Case(
        "a negative size",
        put(*TASK, "files", 0, "size", value=-1),
        "bad_bundle.below_minimum",
        "tasks[0].files[0].size",
    ),
    Case(
        "a listed link",
        put(*TASK, "files", 0, "link", value="/etc"),
        "bad_bundle.unknown_field",
        "tasks[0].files[0].link",
    ),
    Case("a task without artifacts", put(*TASK, "artifacts", value=[]), "bad_bundle.empty", "tasks[0].artifacts"),
    Case("a task named CON", put(*TASK, "name", value="con"), "name.reserved", "tasks[0].name"),
]


def _with_tls(field: str, value: Any, code: str) -> Case:
    change = both(put("base_url", value="https://models.example/v1"), put(field, value=value))
    return Case(f"{field}={value!r} with TLS", change, code, field)


ENDPOINT_V2 = [
    _field(("served_model",), "other", "bad_endpoint.unknown_field"),
    _field(("served_models",), "other", "bad_endpoint.wrong_type"),
    _field(("served_models",), None, "bad_endpoint.wrong_type"),
    _field(("served_models",), [f"name-{number}" for number in range(17)], "bad_endpoint.too_long"),
    Case("two words", put("served_models", 0, value="two words"), "bad_endpoint.bad_format", "served_models[0]"),
    Case("no text", put("served_models", 0, value=7), "bad_endpoint.wrong_type", "served_models[0]"),
    Case("the alias itself", put("served_models", 0, value="small-model"), "bad_endpoint.repeated", "served_models[0]"),
    Case("twice", put("served_models", 1, value="small-model-2026-05-01"), "bad_endpoint.repeated", "served_models[1]"),
    _field(("private_addresses",), "yes", "bad_endpoint.unexpected_value"),
    _field(("private_addresses",), True, "bad_endpoint.unexpected_value"),
    _field(("private_addresses",), None, "bad_endpoint.unexpected_value"),
    _field(("private_addresses",), ["allowed"], "bad_endpoint.unexpected_value"),
    *[
        Case(host, put("base_url", value=f"http://{host}/v1"), "endpoint.private_address", "private_addresses")
        for host in ("10.0.0.7:8000", "192.168.1.2", "[fd00::1]:8000", "100.64.0.1", "[::ffff:a00:1]")
    ],
    *[
        _field(("base_url",), f"http://{host}/v1", "endpoint.bad_host")
        for host in ("169.254.169.254", "100.100.100.200", "[fd00:ec2::254]", "[2002:a9fe:a9fe::1]", "255.255.255.255")
    ],
    _field(("ca_file",), "/etc/benchsite/ca.pem", "endpoint.ca_without_tls"),
    _with_tls("ca_file", "ca.pem", "bad_endpoint.bad_format"),
    _with_tls("ca_file", "/etc/../ca.pem", "bad_endpoint.bad_format"),
    _with_tls("ca_file", 7, "bad_endpoint.wrong_type"),
    _field(("headers",), ["X-Team: a"], "bad_endpoint.wrong_type"),
    _field(("headers",), None, "bad_endpoint.wrong_type"),
    _field(("headers",), {f"X-{number}": "x" for number in range(17)}, "bad_endpoint.too_long"),
    *[
        Case(name, put("headers", value={name: "x"}), code, f"headers.{name}")
        for code, names in {
            "endpoint.own_header": "HOST Content-Type content-length Connection TE Transfer-Encoding Accept-Encoding "
            "Proxy-Authorization User-Agent Expect X-Session-ID",
            "endpoint.secret_header": "X-Subscription-Key X-Router-Auth Session-Token",
            "credential_in_plaintext": "Authorization authorization Cookie X-API-Key auth-token",
        }.items()
        for name in names.split()
    ],
    *[
        Case(f"a value like {kind}", put("headers", value={"X-Team": value}), code, "headers.X-Team")
        for kind, value, code in (
            ("an OpenAI key", "sk-SENTINEL-12345678", "credential_in_plaintext"),
            ("a bearer", "Bearer abcdefgh12345678", "credential_in_plaintext"),
            ("a long random word", "0123456789abcdefABCDEF0123456789abcdefAB", "endpoint.secret_header"),
            ("two lines", "a\r\nX-Other: b", "bad_endpoint.bad_format"),
            ("nothing", "", "bad_endpoint.bad_format"),
            ("blanks", " a", "bad_endpoint.bad_format"),
            ("no ASCII", "größe", "bad_endpoint.bad_format"),
            ("a number", 7, "bad_endpoint.wrong_type"),
        )
    ],
    Case("a name that is none", put("headers", value={"X Team": "a"}), "bad_endpoint.bad_format", 'headers["X Team"]'),
    Case("two names", put("headers", value={"X-Team": "a", "x-team": "b"}), "bad_endpoint.repeated", "headers.x-team"),
    Case(
        "private addresses by the host's route",
        both(
            put("private_addresses", value="allowed"), put("route", value="host-gateway"),
            put("base_url", value="http://127.0.0.1:8000/v1"),
        ),
        "endpoint.private_without_direct",
        "private_addresses",
    ),
]  # fmt: skip
