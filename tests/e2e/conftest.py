import signal

import pytest

from cluster import Cluster, MINI


def pytest_configure(config):
    """A run that is told to end takes its processes with it, as with Ctrl-C."""
    config.addinivalue_line("markers", "client(name, feature): what of which client the test shows; docs/clients.md says it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def cluster():
    """Starts processes for one test and ends them after it; their logs are in the report of a test that fails."""
    with Cluster() as owned:
        yield owned


@pytest.fixture(scope="session")
def solo():
    """A lead without nodes, whose answers are what every cluster must give."""
    with Cluster() as owned:
        yield owned.lead([], "--parallel", 4).wait_ready()


@pytest.fixture(scope="module")
def trio():
    """A lead with two nodes for tests that leave it as it is."""
    with Cluster() as owned:
        yield owned.lead(owned.nodes(2), "--parallel", 2, "--chunk", 8).wait_ready()


@pytest.fixture(scope="session")
def mini_weights():
    return sum(path.stat().st_size for path in MINI.glob("*.safetensors"))
