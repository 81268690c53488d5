"""Engines: the same bits everywhere, lost workers and schedulers, interrupts."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.data import Block

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

N, D, CHUNK = 40_000, 12, 5_000


def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.sign(X[:, :4].sum(axis=1) + 2 * rng.standard_normal(N))


def stated(*data):
    return sa.Problem.linear(
        sa.Logistic(), *data, structure=sa.Differences(D), on_structure=sa.L1(1e-3)
    )


@pytest.fixture(scope="module")
def client():
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "60s"}):
        cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        with cluster, distributed.Client(cluster) as connected:
            yield connected


@pytest.fixture(scope="module")
def collections():
    X, y = rows()
    return da.from_array(X, chunks=(CHUNK, -1)), da.from_array(y, chunks=CHUNK)


@pytest.fixture(scope="module")
def reference(collections):
    with sa.cluster.use(sa.cluster.Local(1)):
        return solved(collections)


def solved(data, **options):
    return sa.minimize(stated(*data), stop=sa.Gap(1e-8), memory="4MiB", **options)


class Counting:
    """A client that remembers how many tasks it was given."""

    def __init__(self, client):
        self.client, self.tasks = client, 0

    def __getattr__(self, name):
        return getattr(self.client, name)

    def submit(self, *task, **options):
        self.tasks += 1
        return self.client.submit(*task, **options)


def test_dask_gives_the_bits_of_this_process(client, collections, reference):
    there = solved(collections)  # the connected client is used by itself
    assert there.coef.tobytes() == reference.coef.tobytes()
    assert (there.gap, there.n_passes) == (reference.gap, reference.n_passes)


def test_partitions_that_a_cluster_holds_give_the_same_bits(client, collections, reference):
    held = client.persist(list(collections))
    watched = Counting(client)
    found = solved(held, cluster=sa.cluster.Dask(watched))
    assert found.coef.tobytes() == reference.coef.tobytes()
    # one per partition, where it is; a read that values the answer goes beside the passes
    assert watched.tasks % (N // CHUNK) == 0
    assert watched.tasks >= N // CHUNK * found.n_passes


def test_shards_are_handed_out_in_about_four_tasks_per_worker(client, tmp_path):
    X, y = rows()
    many = da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100)
    watched = Counting(client)
    value = stated(*many).f2
    with sa.cluster.use(sa.cluster.Dask(watched)):
        value.value(np.zeros(D))
    assert len(value.source.shards) == 400
    assert watched.tasks == 8


@dataclass(frozen=True)
class Strange:
    """A shard that cannot be read."""

    first: int = 0
    n_rows: int = 10

    def blocks(self, max_bytes):
        raise sa.DataError("row 7 of this very file")


def first_number(shard):
    for block in shard.blocks(1000):
        return block.first


def test_errors_of_the_data_are_told_and_not_repeated(client):
    watched = Counting(client)
    with pytest.raises(sa.DataError, match="row 7 of this very file"):
        sa.cluster.Dask(watched).map_reduce([Strange()], first_number, max)
    assert watched.tasks == 1


@pytest.mark.parametrize("held", [False, True])
def test_a_worker_that_is_killed_changes_no_bit(held, client, collections, reference):
    data = client.persist(list(collections)) if held else collections
    pids = list(client.run(os.getpid).values())
    killer = threading.Timer(0.3, os.kill, (pids[0], signal.SIGKILL))
    killer.start()
    found = [solved(data, cluster=sa.cluster.Dask(client)) for _ in range(3)]
    killer.join()
    for each in found:
        assert each.coef.tobytes() == reference.coef.tobytes()
    client.wait_for_workers(2, timeout=60)
    assert pids[0] not in client.run(os.getpid).values()


def test_a_cluster_without_workers_is_given_up():
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
        pytest.raises(sa.EngineLost, match=r"no worker for 0 s.*checkpoint=PATH"),
    ):
        source = sa.data.ArraySource(*rows())
        sa.minimize(stated(source), cluster=sa.cluster.Dask(client, patience=0.4))


def test_a_lost_scheduler_names_the_checkpoint_which_goes_on_here(
    collections, reference, tmp_path
):
    dask = pytest.importorskip("dask")
    address, started = tmp_path / "scheduler.json", []

    def start(kind, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard"]
        command += ["--scheduler-file", str(address), *options]
        started.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL))

    start("scheduler", "--port", "0")
    start("worker", "--nthreads", "1", "--no-nanny")
    path, asked = tmp_path / "run.ckpt", {"checkpoint_every": 0}

    def strike(record, state):
        os.kill(started[0].pid, signal.SIGKILL)

    try:
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
            distributed.Client(scheduler_file=str(address), set_as_default=False) as client,
        ):
            client.wait_for_workers(1, timeout=60)
            with pytest.raises(sa.EngineLost, match=r"go on with resume='.*run\.ckpt'") as error:
                solved(
                    collections,
                    cluster=sa.cluster.Dask(client),
                    checkpoint=path,
                    callback=strike,
                    **asked,
                )
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert "\n" not in str(error.value)
    with sa.cluster.use(sa.cluster.Local(1)):
        again = solved(collections, resume=path)
    assert again.coef.tobytes() == reference.coef.tobytes()
    assert again.n_passes == reference.n_passes


class Fails:
    """An engine that is lost at its nth pass."""

    def __init__(self, passes):
        self.left = passes

    def map_reduce(self, shards, work, add):
        self.left -= 1
        if self.left < 0:
            raise sa.EngineLost("nobody is there")
        return sa.cluster.Local(1).map_reduce(shards, work, add)


@pytest.mark.parametrize("loss", [sa.Logistic, sa.Squared])
def test_whenever_an_engine_is_lost_the_run_goes_on_to_the_same_bits(loss, tmp_path):
    source = sa.data.ArraySource(*rows())
    p = sa.Problem.linear(loss(), source, on_coefficients=sa.L1(0.01))
    asked = {"stop": sa.Gap(1e-8), "memory": "4MiB"}
    whole, path = sa.minimize(p, **asked), tmp_path / "run.ckpt"
    for passes in range(20):
        path.unlink(missing_ok=True)
        engine = Fails(passes)
        try:
            sa.minimize(p, cluster=engine, checkpoint=path, **asked)
        except sa.EngineLost as error:
            there = path.exists()
            told = f"resume='{path}'" if there else "before there was a checkpoint"
            assert told in str(error)
        else:
            break
        again = sa.minimize(p, checkpoint=path, resume=True, **asked)
        assert again.coef.tobytes() == whole.coef.tobytes()
        assert again.n_passes == whole.n_passes
    assert passes >= 2 and engine.left >= 0  # every pass was the lost one once
    with pytest.raises(sa.EngineLost, match="checkpoint=PATH"):
        sa.minimize(p, cluster=Fails(1), **asked)


@dataclass
class Slow:
    """A shard of many blocks that counts what was read of it."""

    first: int
    read: list
    n_rows: int = 1000
    begun: threading.Event = field(default_factory=threading.Event)

    def blocks(self, max_bytes):
        for k in range(self.n_rows):
            self.begun.set()
            time.sleep(0.01)
            self.read.append(k)
            yield Block(self.first + k, np.ones((1, 1)), np.ones(1), None, None)


def number(shard):
    return sum(1 for _ in shard.blocks(8))


@pytest.fixture
def ctrl_c():
    """Ctrl-C as Python begins with it: other tests, or what they import, may have changed it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_of_threads_is_answered_within_a_block():
    read: list = []
    shards = [Slow(1000 * k, read) for k in range(8)]

    def strike():
        shards[0].begun.wait()
        # a signal, as the keyboard sends it: it wakes a thread that waits for others
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=strike).start()
    with pytest.raises(KeyboardInterrupt):
        sa.cluster.Local(2).map_reduce(shards, number, int.__add__)
    time.sleep(0.1)
    seen = len(read)
    assert seen < 100  # of 8000
    time.sleep(0.1)
    assert len(read) == seen  # nobody goes on


def test_an_error_in_one_thread_ends_the_others():
    read: list = []
    shards = [Strange(), *(Slow(1000 * k, read) for k in range(1, 8))]
    with pytest.raises(sa.DataError):
        sa.cluster.Local(2).map_reduce(shards, number, int.__add__)
    assert len(read) < 1000
