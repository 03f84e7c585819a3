#!/usr/bin/env python3
"""Checks what a gateway's customer, node or auditor holds, without any of the gateway's own code.

    verify.py receipt FILE --log-key KEY [--key NODE_KEY] [--witness KEY]...
    verify.py payout FILE --root ROOT
    verify.py checkpoint FILE --log-key KEY [--witness KEY]...
    verify.py vectors vectors.json

Standard library and `cryptography`. Nothing in a file is trusted by itself. Layouts: docs/protocol.md.
"""
import argparse
import base64
import hashlib
import hmac
import json
import pathlib
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


# Keccak-256, as the EVM has it (not SHA3-256, whose padding is another).
ROUNDS = [1, 0x8082, 0x800000000000808A, 0x8000000080008000, 0x808B, 0x80000001, 0x8000000080008081, 0x8000000000008009,
          0x8A, 0x88, 0x80008009, 0x8000000A, 0x8000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003,
          0x8000000000008002, 0x8000000000000080, 0x800A, 0x800000008000000A, 0x8000000080008081, 0x8000000000008080,
          0x80000001, 0x8000000080008008]
MASK = (1 << 64) - 1
rotate = lambda value, by: ((value << by) | (value >> (64 - by))) & MASK


def permute(lanes):
    for constant in ROUNDS:
        columns = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        mixed = [columns[(x + 4) % 5] ^ rotate(columns[(x + 1) % 5], 1) for x in range(5)]
        lanes = [lane ^ mixed[at % 5] for at, lane in enumerate(lanes)]
        x, y, current = 1, 0, lanes[1]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            at = x + 5 * y
            current, lanes[at] = lanes[at], rotate(current, ((step + 1) * (step + 2) // 2) % 64)
        lanes = [lanes[at] ^ (~lanes[at - at % 5 + (at + 1) % 5] & MASK & lanes[at - at % 5 + (at + 2) % 5])
                 for at in range(25)]
        lanes[0] ^= constant
    return lanes


def keccak256(data):
    rate = 136
    padded = bytearray(data) + b"\x01" + b"\x00" * (-(len(data) + 1) % rate)
    padded[-1] |= 0x80
    lanes = [0] * 25
    for begin in range(0, len(padded), rate):
        for at in range(rate // 8):
            lanes[at] ^= int.from_bytes(padded[begin + 8 * at:begin + 8 * at + 8], "little")
        lanes = permute(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def canonical(value, fractions=False):
    """RFC 8785 for what receipts hold: texts, whole numbers, null."""
    if isinstance(value, float) and not fractions:
        raise ValueError("a number that is not whole")
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be"))
        return "{" + ",".join(canonical(key) + ":" + canonical(item, fractions) for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, fractions) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

base64url = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def signed(public_key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
        return True
    except (InvalidSignature, ValueError):
        return False


# The tree of RFC 9162.
leaf_hash = lambda entry: hashlib.sha256(b"\x00" + entry).digest()
node_hash = lambda left, right: hashlib.sha256(b"\x01" + left + right).digest()


def tree_root(leaves):
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return node_hash(tree_root(leaves[:middle]), tree_root(leaves[middle:]))


def root_by_inclusion(leaf, index, size, proof):
    if not 0 <= index < size:
        return None
    first, last, root = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return None
        if first % 2 or first == last:
            root = node_hash(sibling, root)
            while first % 2 == 0 and first != 0:
                first, last = first // 2, last // 2
        else:
            root = node_hash(root, sibling)
        first, last = first // 2, last // 2
    return root if last == 0 else None


def consistent(old_size, old_root, size, root, proof):
    if old_size == size:
        return not proof and old_root == root
    if not 0 < old_size < size:
        return False
    path = ([old_root] if old_size & (old_size - 1) == 0 else []) + list(proof)
    if not path:
        return False
    first, last = old_size - 1, size - 1
    while first % 2:
        first, last = first // 2, last // 2
    before = after = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if first % 2 or first == last:
            before, after = node_hash(sibling, before), node_hash(sibling, after)
            while first % 2 == 0 and first != 0:
                first, last = first // 2, last // 2
        else:
            after = node_hash(after, sibling)
        first, last = first // 2, last // 2
    return last == 0 and before == old_root and after == root


# Signed notes.
def note_key(text):
    name, short, encoded = text.split("+", 2)
    raw = base64.b64decode(encoded, validate=True)
    hashed = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
    if hashed.hex() != short or len(raw) != 33:
        raise ValueError("no key of a signed note: " + text)
    return name, hashed, raw[0], raw[1:]


def checkpoint(note, keys):
    """Origin, size, root and the names of the known keys that signed; raises where one does not hold."""
    body, _, lines = note.rpartition("\n\n")
    body += "\n"
    signers = []
    for line in lines.splitlines():
        match = re.fullmatch("— ([^ +]+) ([A-Za-z0-9+/=]+)", line)
        if match is None:
            raise ValueError("no signature line")
        raw = base64.b64decode(match[2], validate=True)
        for name, hashed, kind, public_key in keys:
            if name != match[1] or hashed != raw[:4]:
                continue
            message, signature = body.encode(), raw[4:]
            if kind == 4:
                seconds, signature = int.from_bytes(signature[:8], "big"), signature[8:]
                message = f"cosignature/v1\ntime {seconds}\n{body}".encode()
            if not signed(public_key, message, signature):
                raise ValueError("a signature of " + name + " does not hold")
            signers.append(name)
    origin, size, root = body.split("\n")[:3]
    return origin, int(size), base64.b64decode(root, validate=True), signers


def check_checkpoint(note, log_keys, witnesses):
    origin, size, root, signers = checkpoint(note, log_keys + witnesses)
    if origin not in [name for name, *_ in log_keys] or origin not in signers:
        raise ValueError("no known key of the log signed the checkpoint")
    print(f"checkpoint of {origin}: {size} entries, signed by {', '.join(signers)}")
    return size, root


def check_opened(facts, opened):
    """What the client shows of its own accord. Fractions in a request are written by `repr`, which is enough for most."""
    answer = [{"finish_reason": one["finish_reason"], "index": one["index"],
               "message": {name: value for name, value in one["message"].items() if value not in (None, "")}}
              for one in (opened.get("response") or {}).get("choices", [])]
    shown = {"request_commitment": opened.get("request") and canonical(opened["request"], True),
             "response_commitment": opened.get("response") and canonical(answer, True),
             "upstream_model_commitment": opened.get("upstream_model")}
    for name, text in shown.items():
        if text and "0x" + hashlib.sha256(base64url(opened["salt"]) + text.encode()).hexdigest() != facts[name]:
            raise ValueError("the receipt commits to another " + name)


def check_cutoff(cutoff, index, size, root):
    """A receipt of a node without its signature: only from before the log's entry that bounds all of them."""
    if not cutoff or not index < cutoff["size"] or cutoff["unsigned"] < 1:
        raise ValueError("a receipt without a signature proves nothing")
    facts = {name: cutoff[name] for name in ("size", "root", "unsigned", "unsigned_hash")}
    entry = hashlib.sha256(canonical({"v": "svc-log-cutoff-v1", **facts}).encode()).hexdigest()
    leaf, path = leaf_hash(("svc-log-v1:cutoff:0x" + entry).encode()), [base64.b64decode(one) for one in cutoff["proof"]]
    if root_by_inclusion(leaf, cutoff["size"], size, path) != root:
        raise ValueError("the cutoff is not in the log")
    print("no signature: it is from before nodes signed all")


def check_receipt(given, log_keys, node_keys, witnesses):
    digest = keccak256(canonical(given["receipt"]).encode())
    told = "0x" + digest.hex()
    if told != given["receipt_hash"]:
        raise ValueError("the facts have another hash")
    if given["receipt"]["v"] not in ("svc-receipt-v1", "svc-receipt-v2"):
        raise ValueError("no receipt of a version that is known here")
    message = given["receipt"]["v"].encode() + b":" + digest
    check_opened(given["receipt"], given.get("opened") or {})
    log = given["log"]
    signature = given.get("signature_ed25519") or log["signature_ed25519"]
    by_node = given["receipt"]["issuer"] == "node"
    known = [base64url(key) for key in node_keys] if by_node else [public_key for *_, public_key in log_keys]
    if signature and not any(signed(key, message, base64url(signature)) for key in known):
        raise ValueError("no known key signed the receipt")
    head, _, note = log["log_proof"].partition("\n\n")
    kind, place, *hashes = head.split("\n")
    if kind != "c2sp.org/tlog-proof@v1":
        raise ValueError("no proof of a log")
    size, root = check_checkpoint(note, log_keys, witnesses)
    leaf = leaf_hash(("svc-log-v1:receipt:" + told).encode())
    index = int(place.removeprefix("index "))
    if root_by_inclusion(leaf, index, size, [base64.b64decode(one) for one in hashes]) != root:
        raise ValueError("the proof does not lead to the checkpoint")
    if not signature:
        check_cutoff(log.get("cutoff") if by_node else None, index, size, root)
    print(f"receipt {told}: entry {index} of the log")


# Payouts: OpenZeppelin's standard tree.
def payout_leaf(payout_id, payee, amount):
    words = bytes.fromhex(payout_id[2:]) + bytes(12) + bytes.fromhex(payee[2:]) + int(amount).to_bytes(32, "big")
    return keccak256(keccak256(words))


def check_payout(given, root):
    identity = given.get("payout_id") or "0x" + keccak256(given["entry_id"].encode()).hex()
    node = payout_leaf(identity, given["payee"], given["amount_wei"])
    for sibling in given["proof"]:
        node = keccak256(b"".join(sorted([node, bytes.fromhex(sibling[2:])])))
    if "0x" + node.hex() != root.lower():
        raise ValueError("the payout is not below the root")
    print(f"payout of {given['amount_wei']} wei to {given['payee']} is below the root")


def check_vectors(all_of_it):
    tree = all_of_it["tree"]
    leaves = [leaf_hash(entry.encode()) for entry in tree["entries"]]
    roots = [tree_root(leaves[:count]) for count in range(1, len(leaves) + 1)]
    assert [leaf.hex() for leaf in leaves] == tree["leaves"]
    assert [root.hex() for root in roots] == tree["roots"]
    inclusion, growth = tree["inclusion"], tree["consistency"]
    path, at = [bytes.fromhex(one) for one in inclusion["proof"]], inclusion["index"]
    assert root_by_inclusion(leaves[at], at, inclusion["size"], path) == roots[-1]
    path = [bytes.fromhex(one) for one in growth["proof"]]
    assert consistent(growth["from"], roots[growth["from"] - 1], growth["to"], roots[growth["to"] - 1], path)
    receipt = all_of_it["receipt"]
    for one in (receipt, all_of_it["receipt_v2"], all_of_it["receipt_before_cutoff"]):
        check_receipt(one["file"], [note_key(receipt["log_key"])], [], [note_key(receipt["witness_key"])])
    node = all_of_it["node_receipt"]
    digest = keccak256(node["text"].encode())
    assert "0x" + digest.hex() == node["hash"] and signed(base64url(node["public_key"]), b"svc-receipt-v1:" + digest, base64url(node["signature_ed25519"]))
    for payout in all_of_it["payouts"]["payouts"]:
        check_payout(payout, all_of_it["payouts"]["root"])
    told = all_of_it["signed_texts"]
    for name in ("payout_report", "payout_proofs"):
        assert signed(base64url(told["public_key"]), told[name]["text"].encode(), base64url(told[name]["signature_ed25519"]))
    line, hook = all_of_it["audit_line"], all_of_it["webhook"]
    text = "audit-chain-v1\0" + line["kind"] + "\0" + canonical({**line["facts"], "previous": line["previous"]})
    assert hmac.new(line["key"].encode(), text.encode(), "sha256").hexdigest() == line["mac"]
    secret, text = base64.b64decode(hook["secret"][6:]), f"{hook['id']}.{hook['timestamp']}.{hook['body']}"
    assert "v1," + base64.b64encode(hmac.digest(secret, text.encode(), "sha256")).decode() == hook["signature"]
    for kind, facts in all_of_it["ledger_facts"].items():
        assert "0x" + hashlib.sha256(canonical(facts).encode()).hexdigest() == all_of_it["entries"][kind]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["receipt", "payout", "checkpoint", "vectors"])
    parser.add_argument("file")
    parser.add_argument("--log-key", action="append", default=[])
    parser.add_argument("--witness", action="append", default=[])
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--root", default="")
    given = parser.parse_args()
    text = pathlib.Path(given.file).read_text(encoding="utf-8")
    log_keys, witnesses = [note_key(key) for key in given.log_key], [note_key(key) for key in given.witness]
    try:
        if given.kind == "checkpoint":
            check_checkpoint(text, log_keys, witnesses)
        elif given.kind == "receipt":
            check_receipt(json.loads(text), log_keys, given.key, witnesses)
        elif given.kind == "payout":
            body = json.loads(text)
            for one in body.get("proofs", [body]):
                check_payout(one, given.root)
        else:
            check_vectors(json.loads(text))
    except (ValueError, KeyError, TypeError, AssertionError) as fault:
        print(f"NOT VALID: {fault!r}", file=sys.stderr)
        return 1
    print("valid")
    return 0


if __name__ == "__main__":
    sys.exit(main())
