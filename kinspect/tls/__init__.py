"""Decryption of TLS 1.2 and 1.3 with the secrets of a key log; no key is ever guessed or derived from traffic.

    keylog = KeyLog()
    keylog.add(text)
    decryptor = Decryptor(keylog, client=0, deliver=take)
    decryptor.data(direction, time, frame, buffer, start, end)

Pure: it opens nothing. `cryptography` is imported when the first connection has its secrets. Nothing is imported here:
a run without TLS needs no more than `keylog` and `records`.
"""
