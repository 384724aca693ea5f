import pytest

from cluster import Cluster, MINI


@pytest.fixture
def cluster():
    """Starts processes for one test and ends them after it; their logs are in the report of a test that fails."""
    owned = Cluster()
    yield owned
    owned.close()


@pytest.fixture(scope="session")
def solo():
    """A lead without nodes, whose answers are what every cluster must give."""
    owned = Cluster()
    yield owned.lead([], "--parallel", 4).wait_ready()
    owned.close()


@pytest.fixture(scope="module")
def trio():
    """A lead with two nodes for tests that leave it as it is."""
    owned = Cluster()
    nodes = owned.nodes(2)
    lead = owned.lead(nodes, "--parallel", 2, "--chunk", 8).wait_ready()
    lead.nodes = nodes
    yield lead
    owned.close()


@pytest.fixture(scope="session")
def mini_weights():
    return sum(path.stat().st_size for path in MINI.glob("*.safetensors"))
