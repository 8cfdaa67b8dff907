"""Rows and progress in one transaction: replays, two drivers, other queries, lost answers, wrong tables."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from highwater.pipeline.database.dialect import PROGRESS_TABLE, Connection
from highwater.pipeline.errors import DatabaseError, PipelineError, SettingsError
from highwater.pipeline.progress.batch import Progress, ProgressError
from highwater.pipeline.progress.rule import Decision
from highwater.pipeline.resume import stored_progress
from tests.database_servers import PASSWORD, PASSWORD_IN_URL, Server
from tests.pipeline.database.tables import COLUMNS, Database, batch, pieces, ten, write


def test_rows_and_progress(database: Database) -> None:
    writer = database.writer()
    assert write(writer, batch(0)) is Decision.WRITE
    assert write(writer, batch(1)) is Decision.WRITE
    assert write(writer, batch(2), []) is Decision.WRITE
    assert database.rows() == sorted([*ten(0), *ten(1)], key=repr)
    assert stored_progress(database.url, "sink") == Progress("query", 2, batch(2).end_offsets, "results")
    assert stored_progress(database.url, "another") is None


def test_a_replay_writes_nothing(database: Database) -> None:
    write(database.writer(), batch(0))
    write(database.writer(), batch(1))
    for number in (0, 1):
        assert write(database.writer(), batch(number)) is Decision.SKIP
    assert len(database.rows()) == 20
    assert write(database.writer(), batch(2)) is Decision.WRITE


def test_a_replay_does_not_ask_for_its_rows(database: Database) -> None:
    write(database.writer(), batch(0))

    asked = iter(pieces(ten(0)))
    assert database.writer().write(batch(0), COLUMNS, asked) is Decision.SKIP
    assert len(list(asked)) == len(pieces(ten(0)))


def test_two_create_the_progress_table(database: Database) -> None:
    """Members of a group and queries of a job start together, on a database that has no table of ours."""
    errors: list[BaseException] = []
    first, second = database.dialect.connect(), database.dialect.connect()

    def create() -> None:
        try:
            database.dialect.create_progress_table(second.cursor())
            second.commit()
        except BaseException as error:
            errors.append(error)

    try:
        database.dialect.create_progress_table(first.cursor())
        other = threading.Thread(target=create)
        other.start()
        other.join(0.5)  # so that it waits for the transaction of the first, where the database lets it wait
        first.commit()
        other.join(60)
    finally:
        first.close()
        second.close()
    assert not other.is_alive()
    assert errors == []


def test_two_drivers_with_one_checkpoint(database: Database) -> None:
    """The second one waits for the first one's transaction, and then sees that the batch is stored."""
    write(database.writer(), batch(0))
    inside, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[pa.RecordBatch]:
        for piece in pieces(ten(1)):
            yield piece
            inside.set()
            assert go_on.wait(60)

    decisions: dict[str, Decision] = {}
    old, new = database.writer(), database.writer()
    first = threading.Thread(target=lambda: decisions.update(old=old.write(batch(1), COLUMNS, slowly())))
    second = threading.Thread(target=lambda: decisions.update(new=write(new, batch(1))))
    first.start()
    assert inside.wait(60)
    second.start()
    second.join(0.3)
    assert second.is_alive(), "the second driver did not wait for the first"
    go_on.set()
    first.join(60)
    second.join(60)
    assert decisions == {"old": Decision.WRITE, "new": Decision.SKIP}
    assert len(database.rows()) == 20


def test_two_drivers_in_their_first_batch(database: Database) -> None:
    write(database.writer("other", "others"), batch(0))  # the tables are there
    database.sql(f"create table {database.dialect.quoted('results')} (id bigint, word varchar(20))")
    inside, go_on = threading.Event(), threading.Event()

    def slowly() -> Iterator[pa.RecordBatch]:
        yield from pieces(ten(0))
        inside.set()
        assert go_on.wait(60)

    decisions: list[Decision] = []
    first = threading.Thread(target=lambda: decisions.append(database.writer().write(batch(0), COLUMNS, slowly())))
    second = threading.Thread(target=lambda: decisions.append(write(database.writer(), batch(0))))
    first.start()
    assert inside.wait(60)
    second.start()
    second.join(0.3)
    go_on.set()
    first.join(60)
    second.join(60)
    assert sorted(each.value for each in decisions) == ["skip", "write"]
    assert len(database.rows()) == 10


def test_a_query_with_a_new_checkpoint(database: Database) -> None:
    write(database.writer(), batch(0))
    with pytest.raises(ProgressError, match="begins with orders-0 at offset 0 and not 10"):
        write(database.writer(), batch(0, "new", start=0))
    assert write(database.writer(), batch(0, "new", start=10), ten(1)) is Decision.WRITE
    assert stored_progress(database.url, "sink") == Progress("new", 0, batch(1).end_offsets, "results")
    with pytest.raises(ProgressError, match="query new writes here"):
        write(database.writer(), batch(1))
    assert len(database.rows()) == 20


def test_a_failure_between_the_rows(database: Database) -> None:
    write(database.writer(), batch(0))

    def breaks() -> Iterator[pa.RecordBatch]:
        yield pieces(ten(1))[0]
        raise ZeroDivisionError

    writer = database.writer()
    with pytest.raises(ZeroDivisionError):
        writer.write(batch(1), COLUMNS, breaks())
    assert len(database.rows()) == 10
    assert write(writer, batch(1)) is Decision.WRITE
    assert len(database.rows()) == 20


class LosesTheAnswer:
    """A connection whose commit fails, after or before the server carried it out."""

    def __init__(self, real: Connection, error: Exception, *, is_carried_out: bool) -> None:
        self._real = real
        self._error = error
        self._is_carried_out = is_carried_out
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self) -> None:
        self.commits += 1
        if self.commits < 3:  # of the look ahead, and of the look at the table
            self._real.commit()
            return
        if self._is_carried_out:
            self._real.commit()
        else:
            self._real.rollback()
        raise self._error


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_commit_whose_answer_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch, is_carried_out: bool
) -> None:
    write(database.writer(), batch(0))
    real = database.dialect.connect
    connections: list[LosesTheAnswer | Connection] = []

    def connect() -> Any:
        error = database.dialect.errors[0](f"connection lost, and {PASSWORD} is shown")
        found = LosesTheAnswer(real(), error, is_carried_out=is_carried_out) if not connections else real()
        connections.append(found)
        return found

    monkeypatch.setattr(database.dialect, "connect", connect)
    writer = database.writer()
    if is_carried_out:
        assert write(writer, batch(1)) is Decision.WRITE
    else:
        with pytest.raises(DatabaseError, match="did not commit batch 1, and nothing of it is stored") as refused:
            write(writer, batch(1))
        assert database.kind == "sqlite" or PASSWORD not in str(refused.value)
    assert len(connections) == 2
    monkeypatch.undo()
    assert len(database.rows()) == (20 if is_carried_out else 10)
    assert write(database.writer(), batch(1)) is (Decision.SKIP if is_carried_out else Decision.WRITE)
    assert len(database.rows()) == 20


def test_rows_replace_those_with_their_key(database: Database) -> None:
    writer = database.writer(key=["id"])
    write(writer, batch(0), [(1, "a"), (2, "b")])
    write(writer, batch(1), [(2, "c"), (3, None)])
    assert database.rows() == [(1, "a"), (2, "c"), (3, None)]
    assert write(database.writer(key=["id"]), batch(0), [(1, "old")]) is Decision.SKIP
    assert database.rows() == [(1, "a"), (2, "c"), (3, None)]


def test_a_key_of_text_and_nothing_but_keys(database: Database) -> None:
    writer = database.writer(key=["word", "id"])
    write(writer, batch(0), [(1, "a"), (1, "A"), (2, "ä")])
    write(writer, batch(1), [(1, "a"), (1, "b")])
    assert database.rows() == [(1, "A"), (1, "a"), (1, "b"), (2, "ä")]


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([(1, "a"), (1, "b")], "two rows of one batch have the same id"),
        ([(None, "a")], "column id is a key, and is null in a row"),
    ],
)
def test_rows_that_have_no_key_of_their_own(database: Database, rows: list[Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        write(database.writer(key=["id"]), batch(0), rows)
    assert database.rows() == []
    assert stored_progress(database.url, "sink") is None


def test_a_progress_of_another_version(database: Database) -> None:
    write(database.writer(), batch(0))
    database.sql(f"update {database.dialect.quoted(PROGRESS_TABLE)} set schema_version = 2")
    with pytest.raises(ProgressError, match="schema version 2, and this Highwater writes 1"):
        write(database.writer(), batch(1))
    assert len(database.rows()) == 10


def test_a_progress_that_is_damaged(database: Database) -> None:
    write(database.writer(), batch(0))
    database.sql(f"update {database.dialect.quoted(PROGRESS_TABLE)} set end_offsets = '[{{'")
    with pytest.raises(ProgressError, match="the stored end offsets are damaged"):
        write(database.writer(), batch(1))
    assert len(database.rows()) == 10


def test_two_sinks_with_one_name(database: Database) -> None:
    write(database.writer(), batch(0))
    with pytest.raises(ProgressError, match="belongs to a sink that writes to results, and this one writes to others"):
        write(database.writer(table="others"), batch(0))


def test_two_sinks_with_two_names(database: Database) -> None:
    for number in range(2):
        write(database.writer(), batch(number))
        write(database.writer("others", "others"), batch(number))
    assert database.rows() == database.rows("others")


@pytest.mark.parametrize(
    ("table", "more", "sentence"),
    [
        (None, {}, "has no table results: create it, or use create=True"),
        ("(id bigint)", {}, "table results has no column word: add it, or leave it out of the frame"),
        ("(id bigint, word bigint)", {}, "word of table results is .*, and the frame has string: alter it to"),
        ("(id bigint, word varchar(9), more bigint not null)", {}, "column more of table results has to have a value"),
        ("(id bigint, word varchar(9))", {"key": ["id"]}, "has no primary key or unique index of id"),
        ("(id bigint primary key, word varchar(9))", {"key": ["word"]}, "has no primary key or unique index of word"),
        ("(id bigint, word varchar(9))", {"key": ["ID"]}, "key: the frame has no column ID"),
    ],
)
def test_a_table_that_does_not_fit(database: Database, table: str | None, more: dict[str, Any], sentence: str) -> None:
    if table:
        database.sql(f"create table results {table}")
    with pytest.raises(SettingsError, match=sentence):
        write(database.writer(create=False, **more), batch(0))
    assert not table or database.rows() == []


def test_a_table_with_more_columns(database: Database) -> None:
    database.sql("create table results (noted varchar(9) default 'now', WORD varchar(20), id integer, free bigint)")
    write(database.writer(create=False), batch(0), [(1, "a")])
    assert database.rows() == [("now", "a", 1, None)]


def test_names_are_never_read_as_sql(database: Database) -> None:
    name, table = 'it\'s "a" `sink`; drop', "ta\"b`le'; drop table x --"
    schema = pa.schema([('a"b', pa.int64()), ("c`d'%s", pa.string())])
    for key in ([], ['a"b']):
        writer = database.writer(f"{name}{key}", f"{table}{len(key)}", key=key)
        for number in range(2):
            write(writer, batch(number), [(number, "'); drop table results; --\\")], schema)
        assert database.rows(f"{table}{len(key)}") == [(number, "'); drop table results; --\\") for number in range(2)]
        assert stored_progress(database.url, f"{name}{key}") is not None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("", "1 to 200 characters"), ("n" * 201, "1 to 200 characters"), ("a ", "no space"), ("a\0", "no NUL")],
)
def test_a_name_that_cannot_be_stored(database: Database, name: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=f"the name of a sink has .*{sentence}"):
        database.writer(name)


@pytest.mark.parametrize("table", ["highwater_progress", "HIGHWATER_OFFSETS", "any.highwater_stage"])
def test_tables_of_highwater(database: Database, table: str) -> None:
    with pytest.raises(SettingsError, match="is one of Highwater's own: write to another"):
        database.writer(table=table)


TOO_LONG = {"postgresql": "n" * 62 + "ä", "mysql": "ä" * 65}
UNKNOWN_CHARACTER = "n\N{GRINNING FACE}"


def test_a_name_that_the_database_would_change(database: Database) -> None:
    """Two names would be one table. Nothing is made, neither the table nor that of the progress."""
    bad = [TOO_LONG[database.kind]] if database.kind in TOO_LONG else []
    bad += [UNKNOWN_CHARACTER, "n "] if database.kind == "mysql" else []
    for name in bad:
        with pytest.raises(SettingsError, match=f"{name}' has .*: use another name"):
            database.writer(table=name)
        with pytest.raises(SettingsError, match=f"{name}' has .*: use another name"):
            write(database.writer(), batch(0), [(1,)], pa.schema([(name, pa.int64())]))
    assert not database.dialect.columns(database.dialect.connect().cursor(), PROGRESS_TABLE)
    assert bad or database.kind == "sqlite"


def test_a_table_that_differs_in_capitals_alone(tmp_path: Path) -> None:
    """For SQLite both are one table."""
    database = Database(f"sqlite:{tmp_path / 'results.db'}")
    write(database.writer(), batch(0))
    with pytest.raises(SettingsError, match="table Results is named results in this database"):
        write(database.writer("other", "Results"), batch(0))
    write(database.writer("another", "main.results"), batch(0), [])
    assert len(database.rows()) == 10


@pytest.mark.slow
def test_columns_that_differ_in_capitals_alone(postgresql: Server) -> None:
    """The column that takes the rows is the one that is looked at."""
    database = Database(postgresql.url)
    database.clear()
    database.sql('create table results (id bigint, word varchar(2), "Word" text)')
    with pytest.raises(SettingsError, match=r"varying\(2\) of table results takes 2"):
        write(database.writer(), batch(0), [(1, "abc")])
    with pytest.raises(SettingsError, match="has no column WORD"):
        write(database.writer(), batch(0), [(1, "abc")], pa.schema([("id", pa.int64()), ("WORD", pa.string())]))


@pytest.mark.slow
def test_a_table_that_a_crash_empties(postgresql: Server) -> None:
    database = Database(postgresql.url)
    database.clear()
    database.sql("create unlogged table results (id bigint, word text)")
    with pytest.raises(SettingsError, match="table results is unlogged, and a crash of the server empties it"):
        write(database.writer(), batch(0))


@pytest.mark.parametrize("how", ["ignore", "replace"])
def test_rows_that_a_table_would_leave_out_or_replace(tmp_path: Path, how: str) -> None:
    database = Database(f"sqlite:{tmp_path / 'results.db'}")
    database.sql(f"create table results (id integer unique on conflict {how}, word text)")
    with pytest.raises(DatabaseError, match=r"UNIQUE constraint failed: results\.id"):
        write(database.writer(), batch(0), [(1, "a"), (1, "b")])
    assert database.rows() == []


def test_a_value_that_the_table_does_not_take(database: Database) -> None:
    if database.kind == "sqlite":
        database.sql("create table results (id integer check (id < 100), word text)")
    else:
        database.sql("create table results (id bigint, word varchar(20), check (id < 100))")
    with pytest.raises(DatabaseError, match="did not take batch 0: ") as refused:
        write(database.writer(), batch(0), [(1, "a"), (70_000, "b")])
    assert "\n" not in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)  # noqa: S301 - of our own making
    assert database.rows() == []


@pytest.mark.slow
def test_a_limit_for_statements_is_none_for_the_rows_of_a_batch(postgresql: Server) -> None:
    """All rows are one COPY, which lasts as long as the job that computes them."""
    Database(postgresql.url).clear()
    database = Database(f"{postgresql.url}?options=-c%20statement_timeout%3D2000")

    def slowly() -> Iterator[pa.RecordBatch]:
        for piece in pieces(ten(0)):
            yield piece
            time.sleep(0.8)

    assert database.writer().write(batch(0), COLUMNS, slowly()) is Decision.WRITE
    assert database.rows() == sorted(ten(0), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_no_message_shows_the_password(kind: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(kind).url
    wrong = url.replace(PASSWORD_IN_URL, "wr%40ng-s3cret")
    database = Database(wrong)
    with pytest.raises(PipelineError, match="cannot be reached") as refused:
        write(database.writer(), batch(0))
    assert "wr@ng" not in str(refused.value)
    assert "wr%40ng" not in str(refused.value)
    assert "wr" not in repr(database.address).replace("writer", "")
    gone = Database(wrong.rpartition(":")[0] + ":1/results")
    with pytest.raises(DatabaseError, match="cannot be reached"):
        write(gone.writer(), batch(0))
