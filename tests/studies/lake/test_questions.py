"""The questions on a small lake: expected answers, the same in both engines to the bit; statements that only read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.testing import CliRunner, Result

from highwater.cli import app
from highwater.common.errors import UsageError
from highwater.results import checksums
from highwater.results.models import TrialSummary
from highwater.results.reader import RunResult
from highwater.studies.history.otava import ChangePoint
from highwater.studies.lake import adding, compacting, steps
from highwater.studies.lake.asking import Answer, Connection, ask, asked_sql, opened, time_line
from highwater.studies.lake.engine import parameters_in, with_markers
from highwater.studies.lake.manifest import Manifest
from highwater.studies.lake.questions import question_named, question_of, questions
from tests.studies.lake.small_lake import write_run

DAYS = 8
SLOWER_FROM = 5
GIVEN = {"Q1": {"workload": "quickstart"}, "Q2": {"workload": "quickstart"}, "Q7": {"since": "2026-03-05"}}


def measured_on(day: int) -> Any:
    """Latencies and rates of a day; the histograms stay as they are. On day 3 a record is lost."""

    def change(summary: TrialSummary) -> TrialSummary:
        delivery = summary.delivery.model_copy(update={"checked": True, "lost": int(day == 3 and summary.trial == 1)})
        faster = 0.75 if day >= SLOWER_FROM else 1.0
        host = summary.host.model_copy(update={"cpu_ratio": 0.1 * summary.trial + 0.01 * day})
        return summary.model_copy(
            update={"delivery": delivery, "achieved_per_s": summary.achieved_per_s * faster, "host": host}
        )

    return change


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight days of two cells with A/A twins; linger.ms changes on the fifth day, and throughput with it."""
    folder = tmp_path_factory.mktemp("questions")
    runs = []
    for day in range(1, DAYS + 1):
        run = write_run(
            folder / f"run{day}",
            day,
            axes={"producers.client.acks": ["all", "1"]},
            trials=3,
            detailed=True,
            analysed=True,
            change=measured_on(day),
        )
        path = run / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["workload"]["producers"]["client"]["linger.ms"] = 5 if day < SLOWER_FROM else 50
        path.write_text(json.dumps(manifest))
        (run / "checksums.sha256").unlink()
        checksums.write(run)
        runs.append(run)
    done = list(adding.add(Manifest(folder / "lake"), runs, processes=1))
    assert {addition.outcome for addition in done} == {"added"}, done
    return folder / "lake"


@pytest.fixture(scope="module")
def local(lake: Path) -> Iterator[Connection]:
    with opened(Manifest(lake)) as connection:
        yield connection


def split_at(values: dict[str, list[float]], magnitude: float) -> dict[str, list[ChangePoint]]:
    """A stand-in for Apache Otava: the change of the fifth day."""
    found = {}
    for name, series in values.items():
        before, after = series[SLOWER_FROM - 2], series[SLOWER_FROM - 1]
        large = abs(after / before - 1) > magnitude
        found[name] = [ChangePoint(SLOWER_FROM - 1, before, after, 1e-6)] if large else []
    return found


@pytest.fixture(autouse=True)
def _without_otava(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_with_otava", split_at)


def answered(connection: Connection, name: str, **given: str) -> Answer:
    return ask(connection, question_named(name), {**GIVEN.get(name, {}), **given})


def test_every_question_has_its_answer(local: Connection, lake: Path) -> None:
    found = {name: answered(local, name) for name in questions()}
    assert list(found) == [f"Q{number}" for number in range(1, 13)]
    rows = {name: answer.rows for name, answer in found.items()}

    def column(name: str, title: str) -> list[Any]:
        return [row[title] for row in rows[name]]

    # Against the directories themselves.
    result = RunResult(Path(next(iter(Manifest(lake).runs().values()))[0].source))
    first = rows["Q1"][0]
    of_cell = sorted(
        trial.summary.produce.response_ns.p99
        for trial in result.trials
        if trial.summary.cell == first["cell"] and trial.summary.role == "measure"
    )
    assert (first["trials"], first["value"], first["unit"]) == (3, float(of_cell[1]), "ns")
    assert len(rows["Q1"]) == 2 * DAYS

    moved = answered(local, "Q2", metric="produce.achieved_per_s")
    top = moved.rows[0]
    assert (top["scope"], top["name"], top["before"], top["after"]) == (
        "workload",
        "producers.client.linger.ms",
        "5",
        "50",
    )
    assert top["change_ratio"] == pytest.approx(0.75, rel=0.01)
    assert "linger.ms, 5 → 50: −25 %" in moved.sentence

    assert len(rows["Q3"]) == 1
    assert 0 < rows["Q3"][0]["variation_ratio"] < 1
    assert rows["Q4"][0]["trials"] == 6 * DAYS
    assert all(-1 <= value <= 1 for value in column("Q4", "correlation"))
    assert rows["Q5"][0]["offered_per_s"] == 200.0
    assert [row["cell"] for row in rows["Q6"]] == ["acks=all"]
    regressed = {row["metric"] for row in rows["Q7"]}
    assert "produce.achieved_per_s" in regressed
    assert "produce.p99" not in regressed
    assert column("Q8", "pairs") == [3 * DAYS] * len(rows["Q8"])
    (lost,) = rows["Q9"]
    assert (lost["lost"], lost["faulty_trials"], lost["trials"]) == (3, 3, 9 * DAYS)
    assert found["Q9"].sentence.startswith("quickstart: 3 lost, 0 duplicated")
    assert column("Q10", "acks") == ["1", "all"]
    assert rows["Q10"][0]["price_ratio"] == 1.0
    assert all(row["pooled_p999_ns"] > row["p99_ns"] for row in rows["Q10"])
    (disk,) = rows["Q11"]
    assert disk["append_bytes_per_s"] > 0
    assert found["Q12"].sentence == "no change point in produce.p99"
    changed = answered(local, "Q12", metric="produce.achieved_per_s")
    assert {(row["time"][:10], round(row["change_ratio"], 2)) for row in changed.rows} == {("2026-03-05", 0.75)}
    for answer in found.values():
        assert "{" not in answer.sentence
        assert "\n" not in answer.sentence


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_answers_are_the_same_on_spark_to_the_bit(lake: Path, local: Connection, tmp_path: Path) -> None:
    with opened(Manifest(lake), "spark", "local[2]", {"spark.driver.memory": "1g"}) as spark:
        for name in questions():
            one, other = answered(local, name), answered(spark, name)
            assert repr(one.rows) == repr(other.rows), name
            assert (one.columns, one.sentence) == (other.columns, other.sentence), name
        statement = asked_sql(
            "select hdr_count(array_agg(buckets), array_agg(counts)) as n from seconds where metric = :m"
        )
        assert (
            ask(spark, asked_sql(POOLED), {"role": "a_a"}).rows == ask(local, asked_sql(POOLED), {"role": "a_a"}).rows
        )
        given = {"m": "send_delay"}
        assert ask(spark, statement, given).rows == ask(local, statement, given).rows
        one, other = (time_line(connection, "quickstart", "produce_response") for connection in (local, spark))
        assert (one.rows, one.columns, one.sentence) == (other.rows, other.columns, other.sentence)
        for sql in (
            "drop view runs",
            f"insert overwrite directory '{tmp_path}/out' using csv select run from runs",
            f"create table t using csv location '{tmp_path}/out' as select run from runs",
            f"select * from csv.`{tmp_path}`",
            "select 1) as a; drop view runs; select * from (select 1",
            "select reflect('java.lang.System', 'exit', 1)",
            "select java_method('java.lang.System', 'getenv', 'HOME')",
            "set spark.sql.runSQLOnFiles=true",
            "select * from nothing",
        ):
            with pytest.raises(UsageError) as caught:
                ask(spark, asked_sql(sql), {})
            assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []
        assert ask(spark, asked_sql("select count(*) as n from runs"), {}).rows == [{"n": DAYS}]


def test_answers_are_the_same_after_compaction(lake: Path, local: Connection, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    compacting.compact(Manifest(copy))
    with opened(Manifest(copy)) as compacted:
        for name in questions():
            assert repr(answered(compacted, name).rows) == repr(answered(local, name).rows), name


@pytest.mark.parametrize(
    "sql",
    [
        "drop table runs",
        "insert into runs select * from runs",
        "select 1; select 2",
        "copy runs to '{there}/out.csv'",
        "attach '{there}/other.db'",
        "set enable_external_access = true",
        "install httpfs",
        "select * from read_csv('{there}/secret.csv')",
        "select * from '{there}/secret.csv'",
        "select * from read_text('{there}/secret.csv')",
        "select * from read_parquet('{there}/secret.parquet')",
        "select * from read_blob('{lake}/manifest.jsonl')",
        "select * from glob('{lake}/*')",
        "copy runs to '{lake}/runs.parquet'",
        "select * from glob('{there}/*')",
        "select * from runs_of_python",
        "selec 1",
        "   ",
    ],
)
def test_a_statement_reads_the_lake_and_nothing_else(local: Connection, lake: Path, tmp_path: Path, sql: str) -> None:
    runs_of_python = [1]
    assert runs_of_python
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    shutil.copyfile(next(lake.glob("runs/*/*/*.parquet")), tmp_path / "secret.parquet")
    before = sorted(lake.rglob("*"))
    with pytest.raises(UsageError) as caught:
        ask(local, asked_sql(sql.format(there=tmp_path, lake=lake)), {})
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret.csv", "secret.parquet"]
    assert sorted(lake.rglob("*")) == before
    assert ask(local, asked_sql("select count(*) as n from runs"), {}).rows == [{"n": DAYS}]


POOLED = """\
-- pool pooled by metric, role: 50, 99.9
select h.metric, t.role, h.buckets, h.counts
from histograms h join trials t on t.run = h.run and t.trial_id = h.trial_id where t.role = :role;
select metric, role, count, p50_ns, p99_9_ns from pooled order by metric, role
"""


def test_a_pool_holds_the_percentiles_of_all_its_histograms(local: Connection) -> None:
    of_pool = ask(local, asked_sql(POOLED), {"role": "a_a"})
    at_once = ask(
        local,
        asked_sql(
            "select metric, role, hdr_count(array_agg(h.buckets), array_agg(h.counts)) as count, "
            "hdr_percentile(array_agg(h.buckets), array_agg(h.counts), 50) as p50_ns, "
            "hdr_percentile(array_agg(h.buckets), array_agg(h.counts), 99.9) as p99_9_ns "
            "from histograms h join trials t on t.run = h.run and t.trial_id = h.trial_id "
            "where t.role = :role group by metric, role order by metric, role"
        ),
        {"role": "a_a"},
    )
    assert of_pool.rows == at_once.rows
    assert len(of_pool.rows) > 1
    assert ask(local, asked_sql(POOLED), {"role": "none"}).rows == []


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("-- pool p by metric: 99\nselect metric, buckets, counts from histograms", "must end with a semicolon"),
        (
            "-- pool p by metric: 99\nselect buckets, counts from histograms; select 1",
            "there is no column metric to pool",
        ),
        (
            "-- pool runs by metric: 99\nselect metric, buckets, counts from histograms; select 1",
            "pool runs has the name",
        ),
        ("-- pool p by metric: 99\ndrop table runs; select 1", "a lake can only be read"),
        ("-- pool p by metric: 99\nselect metric, buckets, counts from histograms; select * from q", "name q does"),
    ],
)
def test_a_wrong_pool_gets_one_line(local: Connection, sql: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        ask(local, asked_sql(sql), {})
    assert "\n" not in str(caught.value)


def test_a_statement_gets_the_memory_that_it_was_given(lake: Path) -> None:
    sql = "select array_agg(repeat('a', 900) || x.range || y.range) from range(2000) x, range(2000) y"
    with opened(Manifest(lake), memory_bytes=64 << 20) as small:
        with pytest.raises(UsageError, match=r"needs more memory than 64\.0 MiB; give it more with --memory") as caught:
            ask(small, asked_sql(sql), {})
        assert "\n" not in str(caught.value)
        assert all(answered(small, name).rows for name in ("Q1", "Q10"))


def test_a_lake_may_have_any_name(lake: Path, tmp_path: Path) -> None:
    for name in ("a", "[a]", "it's ?*"):
        shutil.copytree(lake, tmp_path / name)
        with opened(Manifest(tmp_path / name)) as connection:
            assert ask(connection, asked_sql("select count(*) as n from runs"), {}).rows == [{"n": DAYS}]


def test_a_column_that_a_file_does_not_have_is_null(lake: Path, tmp_path: Path) -> None:
    shutil.copytree(lake, tmp_path / "lake")
    (first, *_) = sorted((tmp_path / "lake").glob("trials/*/*/*.parquet"))
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(first, partitioning=None).drop_columns(["medium"]), first)
    with opened(Manifest(tmp_path / "lake")) as connection:
        statement = asked_sql("select count(*) as n, count(medium) as known from trials")
        assert ask(connection, statement, {}).rows == [{"n": 9 * DAYS, "known": 9 * (DAYS - 1)}]


def test_a_setting_that_is_absent_for_a_time_changes_twice(tmp_path: Path) -> None:
    runs = []
    for day in range(1, 5):
        runs.append(run := write_run(tmp_path / f"run{day}", day))
        path = run / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["workload"]["producers"] = {"client": {"acks": "all"} | ({} if day == 3 else {"linger.ms": 5})}
        path.write_text(json.dumps(manifest))
        (run / "checksums.sha256").unlink()
        checksums.write(run)
    list(adding.add(Manifest(tmp_path / "lake"), runs, processes=1))
    with opened(Manifest(tmp_path / "lake")) as connection:
        rows = answered(connection, "Q2").rows
    assert sorted((row["before"], row["after"], row["steps"]) for row in rows if row["name"].endswith("linger.ms")) == [
        ("(not set)", "5", 1),
        ("5", "(not set)", 1),
    ]


def test_parameters_are_values_and_no_text_of_the_statement(local: Connection) -> None:
    sql = "select ':a' as \":b\", run::text as r from runs -- :c\n where workload = :workload /* :d */ and 1 <> :number"
    assert parameters_in(sql) == ["workload", "number"]
    assert with_markers(sql, "$").count("$") == 2
    found = ask(local, asked_sql(sql), {"workload": "x' or '1'='1", "number": "2"})
    assert (found.sentence, found.rows) == ("no rows", [])
    assert len(ask(local, asked_sql(sql), {"workload": "quickstart", "number": "2"}).rows) == DAYS


def run(lake: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "lake", "query", *arguments, "--lake", str(lake)])


def test_the_command_prints_the_answer_first(lake: Path, tmp_path: Path) -> None:
    table = run(lake, "noise-by-host", "--param", "metric=produce.p99.9")
    assert table.exit_code == 0
    assert "is the noisiest: produce.p999 of trials of one cell varies by " in " ".join(table.output.split())
    as_json = json.loads(run(lake, "q03", "--format", "json").output)
    assert (as_json["question"], as_json["parameters"]["metric"]) == ("Q3", "produce.p99")
    assert as_json["rows"][0].keys() == set(as_json["columns"])
    statement = tmp_path / "asked.sql"
    statement.write_text("select workload, count(*) as runs from runs group by workload")
    as_csv = run(lake, "--sql", str(statement), "--format", "csv")
    assert as_csv.output == f"workload,runs\nquickstart,{DAYS}\n"
    listed = run(lake, "--list")
    assert listed.output.startswith("Q1   One figure of a workload over time\n")
    assert "hdr_percentile(array_agg(buckets)" in listed.output


def test_a_time_line_adds_up_the_seconds_of_all_trials(lake: Path, local: Connection) -> None:
    answer = time_line(local, "quickstart", "produce_response")
    assert [row["second"] for row in answer.rows] == list(range(6))
    statement = asked_sql(
        "select second, hdr_percentile(array_agg(s.buckets), array_agg(s.counts), 99.0) as p99_ns "
        "from seconds s join trials t on t.run = s.run and t.trial_id = s.trial_id "
        "where s.metric = 'produce_response' and t.role = 'measure' group by second order by second"
    )
    asked = ask(local, statement, {})
    assert [(row["second"], row["p99_ns"]) for row in answer.rows] == [tuple(row.values()) for row in asked.rows]
    assert answer.sentence.startswith("produce_response of quickstart is worst in second ")
    nothing = CliRunner().invoke(app, ["bench", "lake", "timeline", "none", "--lake", str(lake)])
    assert "the lake has no seconds of produce_response of none" in " ".join(nothing.output.split())
    wrong = CliRunner().invoke(
        app, ["bench", "lake", "timeline", "quickstart", "--metric", "produce", "--lake", str(lake)]
    )
    assert (wrong.exit_code, len(wrong.output.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("Q1",), "Q1 needs the workload: --param workload=WORKLOAD"),
        (("Q13",), "Q13 is not a question; did you mean Q"),
        (("disk",), "disk is not a question; did you mean disks?"),
        (("Q1", "--param", "wokload=x"), "Q1 has no parameter wokload; did you mean workload?"),
        (("Q1", "--param", "workload"), "--param: 'workload' is not of the form NAME=VALUE"),
        (("Q3", "--param", "metric=produce.p98"), "produce.p98 is not a metric; did you mean"),
        (("Q7", "--param", "since=yesterday"), "--param since: Invalid isoformat string: 'yesterday'"),
        (("Q6", "--param", "bound=20"), "--param bound: '20' is not a duration with its unit"),
        (("Q3", "--sql", "-"), "give one question, or one statement with --sql"),
        ((), "give one question, or one statement with --sql"),
        (("Q3", "--memory", "much"), "--memory: 'much' is not a size"),
        (("--sql", "none.sql"), "none.sql: No such file or directory"),
    ],
)
def test_a_wrong_call_gets_one_line(lake: Path, arguments: tuple[str, ...], said: str) -> None:
    done = run(lake, *arguments)
    assert done.exit_code == 2
    assert done.output.startswith(f"error: {said}")
    assert len(done.output.splitlines()) == 1


def test_what_is_no_lake_or_is_damaged_is_named(lake: Path, tmp_path: Path) -> None:
    done = run(tmp_path / "none", "Q9")
    assert (done.exit_code, done.output) == (
        2,
        f"error: {tmp_path / 'none'} is not a lake; make one with: highwater bench lake add DIR --lake LAKE\n",
    )
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    path = next((copy / "trials").rglob("*.parquet"))
    octets = bytearray(path.read_bytes())
    octets[4 : len(octets) // 2] = bytes(len(octets) // 2 - 4)
    path.write_bytes(octets)
    done = run(copy, "Q9")
    assert done.exit_code == 2
    assert done.output.startswith(f"error: {path}: is damaged; its digest is not that of the manifest")
    checked = CliRunner().invoke(app, ["bench", "lake", "verify", "--lake", str(copy)])
    assert checked.exit_code == 4
    assert f"{path}: is damaged" in checked.output
    path.unlink()
    assert f"{path}: is missing" in run(copy, "Q9").output
    assert CliRunner().invoke(app, ["bench", "lake", "verify", "--lake", str(lake)]).exit_code == 0


def test_a_head_that_is_none_is_refused() -> None:
    for text in ("select 1", "-- title: a\n-- nothing: b\n-- param =: c", "-- title: a\n-- nothing: b\n-- answer x: c"):
        with pytest.raises(ValueError, match=r"Q99-x|one line was expected"):
            question_of("Q99-x", text)
