"""One module a workload; its file's name is the workload's (slow_half.py: slow-half).

A module has
    its doc string             the first line says what it measures, the rest how
    TITLE                      a few words
    QUICK                      optional: {argument: value} that --quick sets
    add_arguments(parser)      its options, beside --size, --build, --dir and the others that all
                               take (sluice-bench); may set other defaults for those
    run(args)                  measures, prints a line for each run and tables at the end, and
                               returns what --json writes: title, description, figures, runs,
                               summary, targets as docs/benchmarks.md describes them

In args, beside the options: folder, for what is needed meanwhile (a pathlib.Path, removed at the
end). What goes wrong is raised as relay.Failure. Most modules describe one or more flow.Setting and
leave the rest to measure.rounds and measure.result."""
import importlib
import pkgutil


def find():
    """{name: module}, in the order of the names."""
    return {info.name.replace('_', '-'): importlib.import_module(f'{__name__}.{info.name}')
            for info in pkgutil.iter_modules(__path__)}
