"""A data source of your own: rows in an SQLite table, read block by block.

A source says how many rows and columns there are, and divides them into shards; a shard yields its
rows as ``sa.data.Block`` objects, as often as needed. Shards are small and can be pickled,
because other processes may read them.

    python examples/own_source.py
"""

import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import stochadmm as sa


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of the table."""

    path: str
    first: int
    n_rows: int

    def blocks(self, max_bytes):
        with sqlite3.connect(self.path) as base:
            found = base.execute(
                "SELECT * FROM rows WHERE rowid > ? AND rowid <= ? ORDER BY rowid",
                (self.first, self.first + self.n_rows),
            )
            at = self.first
            while True:
                width = 8 * len(found.description)
                part = np.array(found.fetchmany(max(1, max_bytes // width)), dtype=np.float64)
                if not part.size:
                    break
                yield sa.data.Block(at, np.ascontiguousarray(part[:, :-1]), part[:, -1].copy())
                at += len(part)
        base.close()


@dataclass(frozen=True)
class Table:
    """A table ``rows`` of numbers, the target in the last column."""

    path: str
    n_rows: int
    names: list

    @classmethod
    def of(cls, path):
        with sqlite3.connect(path) as base:
            (count,) = base.execute("SELECT count(*) FROM rows").fetchone()
            head = [column[0] for column in base.execute("SELECT * FROM rows LIMIT 1").description]
        base.close()
        return cls(str(path), count, head[:-1])

    @property
    def n_columns(self):
        return len(self.names)

    @property
    def dtype(self):
        return np.dtype(np.float64)

    @property
    def shards(self):
        size = 5000
        starts = range(0, self.n_rows, size)
        return [Rows(self.path, k, min(size, self.n_rows - k)) for k in starts]

    @property
    def fingerprint(self):
        info = Path(self.path).stat()
        return f"{self.path} {info.st_size} {info.st_mtime_ns}"


def main():
    """Fit a chain to rows in a database."""
    data = sa.datasets.make_chain(12_000, 10, n_levels=3, noise=0.5, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.sqlite"
        columns = ", ".join(f"x{j}" for j in range(10))
        base = sqlite3.connect(path)
        base.execute(f"CREATE TABLE rows ({columns}, y)")
        marks = ", ".join("?" * 11)
        base.executemany(
            f"INSERT INTO rows VALUES ({marks})", np.column_stack([data.X, data.y]).tolist()
        )
        base.commit()
        base.close()

        def problem(*rows):
            return sa.Problem.linear(
                sa.Squared(), *rows, structure=sa.Differences(10), on_structure=sa.L1(0.05)
            )

        result = sa.minimize(problem(Table.of(path)), stop=sa.Gap(1e-8), memory="4MiB")
        whole = sa.minimize(problem(data.X, data.y), stop=sa.Gap(1e-8))
    apart = float(np.abs(result.coef - whole.coef).max())
    print(result.status.name, result.message, f"coefficients differ by {apart:.0e} from memory")
    return result, whole


if __name__ == "__main__":
    main()
