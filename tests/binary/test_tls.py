"""TLS between nodes, in processes of their own."""

import pathlib
import shutil
import socket
import ssl
import subprocess

import pytest

import harness
from harness.server import ServerError
from test_cluster import LocalCluster, await_states, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def openssl(*arguments) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """Signs certificates in a folder."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        folder.mkdir(parents=True)
        self.pem, self.key = folder / "ca.pem", folder / "ca.key"
        self.request("req", "-x509", "-days", 30, "-subj", f"/CN={folder.name}", "-out", self.pem, key=self.key)

    def request(self, *arguments, key: pathlib.Path) -> None:
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key]
        openssl(*arguments[:1], *curve, *arguments[1:])

    def keystore(self, addresses: list[str]) -> pathlib.Path:
        """Key and certificate, good for these addresses."""
        key, request, names, signed = (self.folder / name for name in ["n.key", "n.csr", "n.ext", "n.crt"])
        self.request("req", "-subj", "/CN=node", "-out", request, key=key)
        names.write_text("subjectAltName=" + ",".join(f"IP:{address}" for address in addresses))
        signing = ["-CA", self.pem, "-CAkey", self.key, "-CAcreateserial", "-days", 30, "-extfile", names]
        openssl("x509", "-req", "-in", request, "-out", signed, *signing)
        keystore = self.folder / "node.pem"
        keystore.write_text(key.read_text() + signed.read_text())
        return keystore


def config(folder: pathlib.Path, authority: Authority, addresses: list[str], more: str = "") -> pathlib.Path:
    file = folder / "helenus.yaml"
    file.write_text(
        f"""server_encryption_options:
  internode_encryption: all
  keystore: {authority.keystore(addresses)}
  truststore: {authority.pem}
  require_client_auth: true
  require_endpoint_verification: true
{more}"""
    )
    return file


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(more: str = "") -> LocalCluster:
        cluster = LocalCluster(tmp_path / "cluster", 3)
        cluster.authority = Authority(tmp_path / "authority")
        file = config(tmp_path, cluster.authority, cluster.addresses, more)
        cluster.extra = ["--config", file]
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.kill()


def test_nodes_form_a_cluster_under_tls(cluster, tmp_path):
    cluster = cluster().start()
    await_states(cluster.addresses[0], {address: "UN" for address in cluster.addresses})
    # Who shows no certificate, and who is signed by another authority, hears nothing.
    stranger = Authority(tmp_path / "stranger")
    for shown in [None, stranger.keystore(["127.0.0.1"])]:
        context = ssl.create_default_context(cafile=cluster.authority.pem)
        if shown:
            context.load_cert_chain(shown)
        with socket.create_connection((cluster.addresses[0], 7000), timeout=10) as plain:
            with pytest.raises(OSError):
                with context.wrap_socket(plain, server_hostname=cluster.addresses[0]) as secure:
                    secure.sendall(b"HELN")
                    assert secure.recv(1), "it hung up"
                    pytest.fail("it answers")
    cluster.await_line("require_client_auth asks for one")
    assert cluster.stop() == 0


def test_certificates_are_read_anew(cluster):
    cluster = cluster().start()
    cluster.authority.keystore(cluster.addresses)
    until(lambda: cluster.said().count("certificates have changed and were read") == 3, 30, cluster.said)
    (cluster.authority.folder / "node.pem").write_text("nothing")
    cluster.await_line("the old ones stay in use: .*keystore has no certificate")
    assert cluster.stop() == 0


def test_a_node_without_tls_is_refused_and_both_say_so(cluster, tmp_path):
    cluster = cluster().start()
    outside = harness.Helenus(harness.free_address(), tmp_path / "outside", 1, ["--seeds", cluster.addresses[0]])
    try:
        with pytest.raises(ServerError):
            outside.start(timeout=5)
        line = "connections without TLS are not taken: set server_encryption_options"
        cluster.await_line(line)
        assert line in outside.log.read_text()
        assert cluster.said().count(line) == 1
    finally:
        outside.kill()
    assert cluster.stop() == 0


def test_where_it_is_optional_nodes_with_and_without_it_form_a_cluster(cluster, tmp_path):
    cluster = cluster("  optional: true\n").start()
    outside = harness.Helenus(harness.free_address(), tmp_path / "outside", 1, ["--seeds", cluster.addresses[0]])
    try:
        outside.start()
        await_states(cluster.addresses[1], {address: "UN" for address in [*cluster.addresses, outside.address]})
    finally:
        outside.kill()
    assert cluster.stop() == 0
