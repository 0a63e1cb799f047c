"""Sessions of the project; `nox -l` lists them. Each makes its own environment with pip."""

from pathlib import Path

import nox

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
GROUPS = PROJECT["dependency-groups"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["tests", "lint", "types", "wheel"]
nox.options.reuse_existing_virtualenvs = True


def install(session: nox.Session, *what: str) -> None:
    """Install packages under the constraints that CI uses."""
    session.install(*CONSTRAINTS, *what)


@nox.session
def tests(session: nox.Session) -> None:
    """The project's own tests, on two workers; those with a browser, FlashInfer or a C compiler not."""
    install(session, "-e", ".", *GROUPS["test"])
    session.run(
        "pytest", "-n", "2", "--dist", "worksteal",
        "-m", "not browser and not flashinfer and not compiler",
        *session.posargs,
        env=ONE_THREAD,
    )  # fmt: skip


@nox.session
def browser(session: nox.Session) -> None:
    """The report's page in headless Chromium, which must be installed."""
    install(session, "-e", ".", *GROUPS["test"])
    session.run("pytest", "-m", "browser", "tests/reports", *session.posargs)


@nox.session
def flashinfer(session: nox.Session) -> None:
    """Our calls of FlashInfer through its real Python code; only its compiled kernels are stand-ins."""
    install(session, "-e", ".")
    session.install("--no-deps", "-r", str(ROOT / "tests" / "fast" / "flashinfer.txt"))
    session.run("pytest", "-m", "flashinfer", "tests/fast", *session.posargs, env=ONE_THREAD)


@nox.session
def vectors(session: nox.Session) -> None:
    """The sampler in C of docs/vectors.md, which needs a C compiler named cc."""
    install(session, "-e", ".", *GROUPS["test"])
    session.run("pytest", "-m", "compiler", "tests/conformance", *session.posargs, env=ONE_THREAD)


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, its formatter and the import arrows."""
    install(session, "-e", ".", *GROUPS["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports")


@nox.session
def types(session: nox.Session) -> None:
    """mypy in strict mode."""
    install(session, "-e", ".", *GROUPS["types"])
    session.run("mypy")


@nox.session
def conformance(session: nox.Session) -> None:
    """The suite on our own sampler, tier full; posargs go to `aliquot run`."""
    install(session, "-e", ".")
    arguments = session.posargs or ["--backend", "fast", "--tier", "full"]
    session.run("aliquot", "run", *arguments)


@nox.session
def same(session: nox.Session) -> None:
    """The same tier with no worker, one and two: the reports must be the same bytes."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/same_results.py", *session.posargs, env=ONE_THREAD)


@nox.session
def report(session: nox.Session) -> None:
    """The main job: fast beside the oracle on real logits, and the page in out/."""
    install(session, "-e", ".")
    arguments = session.posargs or ["--backend", "fast", "--tier", "pr"]
    session.run("aliquot", "run", *arguments, "--report", str(ROOT / "out"))


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the wheel, install it outside the checkout, run the suites and the command there."""
    install(session, "build", *GROUPS["test"])
    elsewhere = Path(session.create_tmp())
    session.run("python", "-m", "build", "--outdir", str(elsewhere / "dist"), silent=True)
    built = max((elsewhere / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    install(session, "--force-reinstall", "--no-deps", str(built))
    install(session, str(built))
    session.chdir(elsewhere)
    suites = ("--pyargs", "aliquot.conformance.suites", "--backend", "fast", "--tier", "smoke")
    session.run("pytest", "-n", "2", "-q", *suites)
    session.run("aliquot", "run", "--tier", "smoke", "--report", "out")


@nox.session
@nox.parametrize("release", ["0.32.0", "0.25.1"])
@nox.parametrize("threads", ["all", "1"])
def bench(session: nox.Session, threads: str, release: str) -> None:
    """The production sampler beside vLLM's, transformers' and a plain sort; table and plots go to docs/benchmark."""
    install(session, "-e", ".")
    lists = ROOT / "benchmarks" / "real_backends"
    session.install("--no-deps", "-r", str(lists / f"vllm-{release}.txt"))
    one = threads == "1"
    out = ROOT / "docs" / "benchmark" / f"vllm-{release}{'-one-thread' if one else ''}"
    command = ("python", "benchmarks/sampler_bench.py", "--docs", "--out", str(out))
    options = [*(["--threads", "1"] if one else []), *session.posargs]
    session.run(*command, *options, env={"VLLM_LOGGING_LEVEL": "ERROR"})


@nox.session
def oracle_speed(session: nox.Session) -> None:
    """The speed of the oracle, into docs/."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/oracle_speed.py", *session.posargs)


@nox.session
def certify(session: nox.Session) -> None:
    """The oracle against a 50-digit evaluation on 100,000 rows; the result goes to docs/."""
    install(session, "-e", ".", *GROUPS["test"])
    session.run("python", "benchmarks/certify.py", *session.posargs)
    session.run("python", "benchmarks/oracle_sharpness.py")


@nox.session
def statistics(session: nox.Session) -> None:
    """The figures of docs/statistics.md: draws needed, false alarms, power, speed."""
    install(session, "-e", ".")
    for name in ("speed", "power", "replay", "blackbox", "weak", "null", "tables"):
        session.run("python", f"benchmarks/statistical_{name}.py", env=ONE_THREAD)


@nox.session
def complete(session: nox.Session) -> None:
    """200 complete runs of the suites on each right sampler, one seed each; goes on where it was interrupted."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/complete_runs.py", *session.posargs, env=ONE_THREAD)
    session.run("python", "benchmarks/statistical_tables.py")


@nox.session
@nox.parametrize("kind", ["pr", "full", "ids-only"])
def faults(session: nox.Session, kind: str) -> None:
    """Every fault of the library through the suite; the table goes to README, the picture to docs/."""
    install(session, "-e", ".")
    session.run("python", "benchmarks/kill_table.py", "--run", kind, env=ONE_THREAD)
    session.run("python", "benchmarks/report_picture.py", env=ONE_THREAD)


@nox.session
@nox.parametrize("release", ["0.32.0", "0.25.1"])
def vllm(session: nox.Session, release: str) -> None:
    """vLLM's sampler, tier pr, with the witnesses of what it is known to do otherwise."""
    real_backend(session, f"vllm-{release}")


@nox.session
def transformers(session: nox.Session) -> None:
    """transformers' processors, tier pr, with the witnesses of what they are known to do otherwise."""
    real_backend(session, "transformers-5.19.0")


def real_backend(session: nox.Session, name: str) -> None:
    """Install a backend by its list of exact versions and judge it; the results go to out/."""
    folder = ROOT / "benchmarks" / "real_backends"
    install(session, "-e", ".")
    session.install("--no-deps", "-r", str(folder / f"{name}.txt"))
    environment = {**ONE_THREAD, "VLLM_LOGGING_LEVEL": "ERROR"}
    session.run("python", str(folder / "judge.py"), name, *session.posargs, env=environment)
