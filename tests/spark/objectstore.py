"""An S3-compatible object store on the loopback interface, and URLs of what is in it."""

import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

from pyarrow import fs

USER, PASSWORD, REGION = "test", "a/secret+word", "us-east-1"


class ObjectStore:
    """A running store. Tests make their own buckets, or folders in one."""

    def __init__(self, address):
        self.address = address
        self.system = fs.S3FileSystem(
            access_key=USER,
            secret_key=PASSWORD,
            scheme="http",
            endpoint_override=address,
            region=REGION,
            allow_bucket_creation=True,
        )
        self.options = {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": USER,
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
        }

    def url(self, path):
        """The URL of a path, its first name a bucket, with all that a reader needs to know."""
        settings = f"scheme=http&endpoint_override={self.address}&region={REGION}"
        return f"s3://{USER}:a%2Fsecret%2Bword@{path}?{settings}"


@contextmanager
def object_store():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"127.0.0.1:{port}"
        _wait(address, server)
        yield ObjectStore(address)
    finally:
        server.kill()
        server.wait()


def _wait(address, server):
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/moto-api/", timeout=5).close()
            return
        except OSError:
            if server.poll() is not None:
                raise
            time.sleep(0.1)
