"""The command: python -m tbd.train model=MODEL framework=FRAMEWORK [key=value ...] (--help tells more)."""

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tbd.config.grids import Asked

# Flags of Hydra that only print; nothing is to be checked or run for them.
PRINTING = {"--help", "-h", "--hydra-help", "--version", "--info", "-i", "--cfg", "-c", "--shell-completion", "-sc"}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; give the exit code of the run, or of a sweep the first of its jobs' that is not 0."""
    arguments = sys.argv[1:] if arguments is None else arguments
    signal.signal(signal.SIGTERM, stop)
    try:
        return run(arguments)
    except KeyboardInterrupt:
        print("tbd: interrupted", file=sys.stderr)
        return 130


def run(arguments: list[str]) -> int:
    from tbd.config.compose import compose_jobs, register
    from tbd.config.errors import BadConfig
    from tbd.config.plan import plan
    from tbd.worker.status import BAD_CONFIG, EXIT_CODES

    register()
    overrides = [argument for argument in arguments if not argument.startswith("-")]
    flags = [argument for argument in arguments if argument.startswith("-")]
    if any(flag.split("=")[0] in PRINTING for flag in flags):
        return hydra_run([arguments])
    try:
        if not {"-m", "--multirun"} & set(flags):
            (config,) = compose_jobs(overrides, multirun=False)
            plan(config)
            return hydra_run([arguments])
        from tbd.config.grids import asked
        from tbd.launch.scheduler import place

        if place():
            raise BadConfig(
                "a sweep needs one process that starts its jobs, and RANK and WORLD_SIZE say that there are several: a "
                "command of its own for each job, or unset RANK"
            )
        sweep = asked(overrides)
    except BadConfig as error:
        print(f"tbd: bad configuration: {error}", file=sys.stderr)
        return EXIT_CODES[BAD_CONFIG]
    return sweep_run(flags, sweep, overrides)


def sweep_run(flags: list[str], asked: "Asked", overrides: list[str]) -> int:
    """Show the sweep's plan, then run what of it has no result yet; gives its exit code."""
    from tbd import sweep

    code = sweep.begin(asked, overrides)
    if code is not None:
        return code
    try:
        hydra_run([[*flags, *grid.overrides] for grid in asked.grids])
    finally:
        code = sweep.end()
    return code


def hydra_run(commands: list[list[str]]) -> int:
    """Hand command lines to Hydra, which runs `job` once, or once for each job of a sweep."""
    import hydra

    from tbd import sweep
    from tbd.config.compose import config_folder

    codes: list[int] = []

    def job(config: Any) -> float | None:
        code, objective = sweep.run_job(config)
        codes.append(code)
        return objective

    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # what the user did wrong was told above; a traceback is our fault
    for arguments in commands:
        sys.argv = [sys.argv[0] if sys.argv else "tbd", *arguments]
        hydra.main(config_path=str(config_folder()), config_name="config", version_base="1.3")(job)()
    return next((code for code in codes if code != 0), 0)


def stop(signum: int, frame: Any) -> None:
    """SIGTERM ends a run in order, as Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
