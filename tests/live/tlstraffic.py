"""Heartbeats over TLS, with a key log that the client writes as it connects."""

from __future__ import annotations

import asyncio
import datetime
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kinspect.protocol import Message, encode_request

from . import traffic


def _certificate(folder):
    """A file with a key and a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker.test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "broker.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def talk_tls(folder, port, count, version, keylog):
    """Exchange with a broker on that port; gives the correlation ids."""
    broker = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker.load_cert_chain(_certificate(folder))
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    client.minimum_version = client.maximum_version = version
    client.keylog_filename = str(keylog)

    async def run():
        async with await asyncio.start_server(traffic.answer, "127.0.0.1", port, ssl=broker):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            body = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
            for number in range(count):
                writer.write(
                    traffic.framed(encode_request(Message(traffic.HEARTBEAT, 4, number, body, "app")))
                )
                await traffic.read_frame(reader)
            writer.close()
            await writer.wait_closed()

    asyncio.run(run())
    return list(range(count))
