"""A worker with the package kvtier that PYTHONPATH names: puts a block, asks for it, and prints what it was told.

    python3 plain_worker.py SOCKET_DIR
"""

import sys

import kvtier

_BYTES = 1 << 20
_KEY = b"a plain worker: one block of zero"


def main():
    kvtier.set_logger(lambda level, line: print(line))
    with kvtier.Client(socket_dir=sys.argv[1]) as client:
        space = client.register_space(kvtier.SpaceSpec(
            model="plain", weights_digest="00" * 32, dtype="float32", layout="layer,kv,token,head,dim", layers=1,
            kv_heads=1, head_dim=64, tokens_per_block=32, block_bytes=_BYTES))
        with client.reserve(space, [_KEY]) as put:
            if put.states[0] == "reserved":
                put.copy_in(0, [bytes(_BYTES)])
                put.commit()
        with client.onboard(space, [_KEY], timeout_s=2) as hit:
            print(f"{len(hit)} blocks")


if __name__ == "__main__":
    main()
