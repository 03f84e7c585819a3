#!/usr/bin/env python3
"""Checks what a gateway's customer, node or auditor holds, without any of the gateway's own code.

    verify.py receipt FILE --log-key KEY [--key NODE_KEY] [--witness KEY]... [--witnesses N]
    verify.py checkpoint FILE --policy POLICY
    verify.py payout FILE --root ROOT
    verify.py file FILE            (any of them, or a bundle)
    verify.py vectors vectors.json
    verify.py mutations mutations.json
    verify.py ed25519 ed25519.json

Standard library and `cryptography`. Nothing in a file is trusted by itself. Layouts: docs/protocol.md. What it has seen of a log
it remembers in the file of `penstock verify` (--memory), and refuses a log that does not lead on from there.
"""
import argparse
import base64
import binascii
import datetime
import decimal
import hashlib
import hmac
import json
import os
import pathlib
import re
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class NotValid(ValueError):
    """Why a file proves nothing."""


class WrongUse(ValueError):
    """What the options are that cannot be used."""


def need(holds, why):
    if not holds:
        raise NotValid(why)


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


# JSON: what JSON.parse takes, within the bounds that the gateway has for all JSON from outside.
DEPTH_MAX, MEMBERS_MAX, ITEMS_MAX, MEMBERS_IN_ALL_MAX, CONTAINERS_MAX, COMMAS_MAX = 128, 10_000, 100_000, 400_000, 400_000, 1_000_000
BLANKS = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"


def refuse_constant(name):
    raise NotValid("no JSON: " + name)


def bounded(value):
    members = containers = commas = 0
    level = [value]
    for depth in range(DEPTH_MAX + 2):
        boxes = [one for one in level if isinstance(one, (dict, list))]
        if not boxes:
            return
        need(depth < DEPTH_MAX, "JSON that nests too deep")
        containers += len(boxes)
        members += sum(len(one) for one in boxes if isinstance(one, dict))
        commas += sum(max(0, len(one) - 1) for one in boxes)
        need(all(len(one) <= (MEMBERS_MAX if isinstance(one, dict) else ITEMS_MAX) for one in boxes), "JSON that is too large")
        need(members <= MEMBERS_IN_ALL_MAX and containers <= CONTAINERS_MAX and commas <= COMMAS_MAX, "JSON that is too large")
        level = [item for one in boxes for item in (one.values() if isinstance(one, dict) else one)]


def read_json(text):
    try:
        value = json.loads(text, parse_constant=refuse_constant)
        bounded(value)
        canonical(value)
    except RecursionError:
        raise NotValid("JSON that nests too deep") from None
    except NotValid:
        raise
    except ValueError:
        raise NotValid("no JSON") from None
    return value


def number(value):
    """As ECMAScript writes a number, which is what RFC 8785 asks for."""
    try:
        value = float(value)
    except OverflowError:
        raise NotValid("a number that is too large") from None
    need(value - value == 0, "a number that is too large")
    if value == 0:
        return "0"
    sign, digits, exponent = decimal.Decimal(repr(value)).normalize().as_tuple()
    text, before = "".join(map(str, digits)), len(digits) + exponent
    if len(text) <= before <= 21:
        text += "0" * (before - len(text))
    elif 0 < before <= 21:
        text = text[:before] + "." + text[before:]
    elif -6 < before <= 0:
        text = "0." + "0" * -before + text
    else:
        text = text[0] + ("." + text[1:] if len(text) > 1 else "") + f"e{before - 1:+d}"
    return ("-" if sign else "") + text


def canonical(value):
    """RFC 8785."""
    if isinstance(value, dict):
        pairs = sorted(value.items(), key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(canonical(key) + ":" + canonical(item) for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item) for item in value) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def utf8(text):
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise NotValid("half of a surrogate pair") from None


well_formed = lambda text: not re.search("[\ud800-\udfff]", text)
fields = lambda value: value if isinstance(value, dict) else {}
items = lambda value: value if isinstance(value, list) else []
string = lambda value: value if isinstance(value, str) else None


def whole(value):
    """A whole number that is exact in JSON; -1: it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        return -1
    return int(value) if 0 <= value < 2 ** 53 else -1


def base64_strict(text, length=None):
    """None unless it is the one encoding of so many bytes."""
    try:
        raw = base64.b64decode(utf8(text), validate=True)
    except binascii.Error:
        return None
    return raw if base64.b64encode(raw).decode() == text and length in (None, len(raw)) else None


def base64url(text, length):
    if text is None or not re.fullmatch("[A-Za-z0-9_-]*", text):
        return None
    return base64_strict(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), length)


def hashes_in(value, most=None):
    """The hashes of a proof; None: another form."""
    hashes = [base64_strict(one, 32) if isinstance(one, str) else None for one in items(value)]
    return None if None in hashes or (most is not None and len(hashes) > most) else hashes


# Ed25519 as RFC 8032 has it without the cofactor, and no key of small order or of two encodings: under such a key one signature
# fits many messages. The y of all points of small order, of which those of order 8 have two:
PRIME = 2 ** 255 - 19
EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
SMALL_ORDER = (0, 1, PRIME - 1, EIGHTH, PRIME - EIGHTH)


def sound_key(public_key):
    y = int.from_bytes(public_key, "little") & (2 ** 255 - 1)
    return len(public_key) == 32 and y < PRIME and y not in SMALL_ORDER


def signed(public_key, message, signature):
    if public_key is None or signature is None or not sound_key(public_key) or len(signature) != 64:
        return False
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


def fold(leaf, index, size, proof):
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


def root_by_inclusion(leaf, index, size, proof):
    return fold(leaf, index, size, proof) if 0 <= index < size else None


def consistent(old_size, old_root, size, root, proof):
    if old_size > size:
        return False
    if old_size == size:
        return not proof and old_root == root
    if old_size == 0:
        return not proof and old_root == hashlib.sha256(b"").digest()
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
NAME = r"[\x21-\x2a\x2c-\x7e]{1,200}"
NOTE_CHARS_MAX, SIGNATURES_MAX, SECONDS_MAX, SIZE_MAX = 256 * 1024, 100, 8_640_000_000_000, 2 ** 48


def key_hash(name, kind, public_key):
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public_key).digest()[:4]


def note_key(text):
    """(name, hash, kind, public key); None: no key of a signed note."""
    name, _, rest = text.partition("+")
    short, _, encoded = rest.partition("+")
    raw = base64_strict(encoded, 33)
    if raw is None or not re.fullmatch(NAME, name) or key_hash(name, raw[0], raw[1:]).hex() != short:
        return None
    return name, key_hash(name, raw[0], raw[1:]), raw[0], raw[1:]


def note_keys(texts, option):
    keys = [note_key(text) for text in texts]
    if None in keys:
        raise WrongUse(option + " is not a key of a signed note")
    return keys


def read_note(note):
    """The text and its signatures as (name, hash, bytes); None: no note."""
    gap = note.rfind("\n\n")
    if gap < 0 or not note.endswith("\n") or len(note) > NOTE_CHARS_MAX:
        return None
    signatures = []
    for line in note[gap + 2:-1].split("\n"):
        match = re.fullmatch(f"\u2014 ({NAME}) ([A-Za-z0-9+/=]+)", line)
        raw = base64_strict(match[2]) if match else None
        if raw is None or len(raw) <= 4:
            return None
        signatures.append((match[1], raw[:4], raw[4:]))
    return (note[:gap + 1], signatures) if len(signatures) <= SIGNATURES_MAX else None


def check_note(note, keys):
    """The known keys that signed; None: a signature of one of them does not hold, which no honest note has."""
    (text, signatures), signers = note, []
    for name, hashed, raw in signatures:
        known = next((key for key in keys if key[:2] == (name, hashed)), None)
        if known is None:
            continue
        kind, message = known[2], utf8(text)
        if kind == 4:
            seconds, raw = int.from_bytes(raw[:8], "big"), raw[8:]
            if seconds > SECONDS_MAX:
                return None
            message = f"cosignature/v1\ntime {seconds}\n".encode() + message
        if kind not in (1, 4) or not signed(known[3], message, raw):
            return None
        if known not in signers:
            signers.append(known)
    return signers


def read_checkpoint(text):
    """(origin, size, root); None: no checkpoint."""
    match = re.fullmatch(rf"({NAME})\n(0|[1-9][0-9]{{0,15}})\n([A-Za-z0-9+/]{{43}}=)\n", text)
    root = base64_strict(match[3], 32) if match else None
    return None if root is None or int(match[2]) > SIZE_MAX else (match[1], int(match[2]), root)


def checkpoint_in(note):
    return read_checkpoint(note[0]) if note is not None else None


# Policies of C2SP tlog-policy. Octets as characters: names are compared as they are.
class Policy:
    def __init__(self, octets):
        self.logs, self.witnesses, self.named, self.taken, self.quorums, self.groups = [], {}, {}, set(), [], 0
        if len(octets) > 256 * 1024:
            raise WrongUse("the policy is too large")
        for at, line in enumerate(octets.decode("latin-1").split("\n")):
            words = [word for word in re.split("[ \t]+", line) if word]
            try:
                need(not re.search("[\x00-\x08\x0b-\x1f\x7f]", line), "a control character")
                if words and not words[0].startswith("#"):
                    need(words[0] in ("log", "witness", "group", "quorum"), "no line of a policy")
                    getattr(self, "read_" + words[0])(words[1:])
            except NotValid as fault:
                raise WrongUse(f"line {at + 1} of the policy: {fault}") from None
        if len(self.quorums) != 1:
            raise WrongUse("a policy has one quorum line")

    def key(self, text, kind, others):
        key = note_key(text)
        need(key is not None and key[2] == kind, "no key of its kind")
        need(all(key[3] != other[3] for other in others) and len(others) < 256, "a key that stands there twice")
        return key

    def define(self, name, meaning):
        need(name != "none" and name not in self.named, "a name that is taken")
        self.named[name] = meaning

    def read_log(self, words):
        need(1 <= len(words) <= 2, "no log")
        self.logs.append(self.key(words[0], 1, self.logs))

    def read_witness(self, words):
        need(2 <= len(words) <= 3, "no witness")
        key = self.key(words[1], 4, list(self.witnesses.values()))
        self.define(words[0], lambda signers: key in signers)
        self.witnesses[words[0]] = key

    def read_group(self, words):
        need(len(words) >= 3 and self.groups < 256, "no group")
        name, least, *members = words
        need(len(set(members)) == len(members) and not self.taken & set(members), "a member that stands there twice")
        need(all(member in self.named for member in members), "a member that no line before defines")
        numeric = int(least) if re.fullmatch("[1-9][0-9]{0,3}", least) else 0
        count = {"all": len(members), "any": 1}.get(least, numeric)
        need(1 <= count <= len(members), "no threshold")
        met = [self.named[member] for member in members]
        self.define(name, lambda signers: sum(one(signers) for one in met) >= count)
        self.taken |= set(members)
        self.groups += 1

    def read_quorum(self, words):
        need(len(words) == 1 and not self.quorums, "no quorum")
        need(words[0] == "none" or words[0] in self.named, "a quorum that no line before defines")
        self.quorums.append(self.named.get(words[0], lambda signers: True))

    def is_met(self, signers):
        return self.quorums[0](signers)


# What this computer has seen of logs, in the form of `penstock verify`.
def name_parts(origin):
    match = re.fullmatch("(.*?)(?:/([0-9]+))?", origin.replace("svc-log/", "", 1))
    return match[1], int(match[2] or 1)


def earlier(one, other):
    return name_parts(one)[0] == name_parts(other)[0] and name_parts(one)[1] < name_parts(other)[1]


class Memory:
    def __init__(self, path):
        self.path, self.keys, self.checkpoints = path, [], {}
        if path is not None and path.exists():
            try:
                kept = json.loads(path.read_text(encoding="utf-8"))
            except ValueError:
                kept = None
            if not isinstance(kept, dict):
                raise WrongUse(f"{path} is damaged")
            self.keys = [key for key in items(kept.get("keys")) if isinstance(key, str)]
            self.checkpoints = fields(kept.get("checkpoints"))

    def seen(self, origin):
        found = [read_checkpoint(text) for text in self.checkpoints.values() if isinstance(text, str)]
        return [one for one in found if one is not None and name_parts(one[0])[0] == name_parts(origin)[0]]

    def keep(self, checkpoint, keys):
        origin, size, root = checkpoint
        before = read_checkpoint(string(self.checkpoints.get(origin)) or "")
        if before is None or before[1] <= size:
            self.checkpoints[origin] = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
        texts = [f"{name}+{hashed.hex()}+{base64.b64encode(bytes([kind]) + raw).decode()}" for name, hashed, kind, raw in keys]
        self.keys = list(dict.fromkeys(self.keys + texts))[-1_000:]

    def write(self):
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump({"keys": self.keys, "checkpoints": self.checkpoints}, file, indent=2)
        os.replace(beside, self.path)


def newest(seen):
    best = None
    for one in seen:
        best = one if best is None or earlier(best[0], one[0]) else best
    return best


def seen_before(seen, origin):
    same = next((one for one in seen if one[0] == origin), None)
    return same or newest([one for one in seen if earlier(one[0], origin)]) or newest(seen)


class Trust:
    """What the one who verifies knows from elsewhere."""

    def __init__(self, memory, log_keys=(), node_keys=(), witnesses=(), least=0, policy=None, roots=(), log_needed=True):
        self.memory, self.policy, self.least, self.log_needed = memory, policy, least, log_needed
        self.log_keys = note_keys([*log_keys, *memory.keys], "--log-key")
        self.witnesses, self.roots = note_keys(witnesses, "--witness"), [root.lower() for root in roots]
        self.node_keys = [base64url(key, 32) for key in node_keys]
        if any(key is None or not sound_key(key) for key in self.node_keys):
            raise WrongUse("--key is not an Ed25519 key in base64url")
        if policy is not None:
            if witnesses or least or not log_needed or (log_keys and policy.logs):
                raise WrongUse("the policy says which logs and witnesses count")
            self.witnesses = list(policy.witnesses.values())
            self.log_keys = policy.logs or self.log_keys
        self.shown = {}

    def keys_for(self, origin, seen):
        own = [key for key in self.log_keys if key[0] == origin]
        if own or (self.policy is not None and self.policy.logs):
            return own
        names = [one[0] for one in seen]
        return [(origin, key_hash(origin, key[2], key[3]), key[2], key[3]) for key in self.log_keys if key[0] in names]


def check_fork(before, now, given):
    """That a log under a later name goes on from what was seen: all of it, or what its fork's entry says that it lost."""
    grown = None if before[1] > now[1] else growth_proof(before[1], now[1], given)
    for fork in items(given.get("forks"))[:64]:
        told = fields(fork)
        origin, root, lost = string(told.get("origin")), string(told.get("root")), string(told.get("lost"))
        size, path = whole(told.get("size")), hashes_in(told.get("proof"), 63)
        if None in (origin, root, lost, path) or size < 0 or not isinstance(told.get("proof"), list):
            continue
        if not all(well_formed(one) for one in (origin, root, lost)):
            continue
        if not earlier(before[0], origin) or (origin != now[0] and not earlier(origin, now[0])):
            continue
        facts = {"v": "svc-log-fork-v1", "origin": origin, "size": size, "root": root, "lost": lost}
        entry = ("svc-log-v1:fork:0x" + hashlib.sha256(utf8(canonical(facts))).hexdigest()).encode()
        if root_by_inclusion(leaf_hash(entry), size, now[1], path) != now[2]:
            continue
        if checkpoint_in(read_note(lost)) == before:
            return
        if origin == now[0] and grown is not None and consistent(before[1], before[2], now[1], now[2], grown):
            return
    raise NotValid(f"no proof that {now[0]} goes on from the {before[1]} entries of {before[0]} that were seen here")


def growth_proof(size, to, given):
    if size == to:
        return []
    for one in items(given.get("consistency")):
        if whole(fields(one).get("from")) == size and whole(fields(one).get("to")) == to:
            return hashes_in(fields(one).get("proof"))
    return None


def check_growth(now, seen, given):
    before = seen_before(seen, now[0])
    if before is None:
        return
    if earlier(before[0], now[0]):
        check_fork(before, now, given)
        return
    old, new = (before, now) if before[1] <= now[1] else (now, before)
    proof = growth_proof(old[1], new[1], given)
    need(proof is not None, f"no proof from {old[1]} to {new[1]} entries")
    need(consistent(old[1], old[2], new[1], new[2], proof), "SPLIT VIEW: this log does not lead on from the one shown before")


def check_checkpoint(text, given, trust):
    note = read_note(text)
    now = checkpoint_in(note)
    need(now is not None, "there is no checkpoint of a log")
    seen = trust.memory.seen(now[0])
    signers = check_note(note, trust.keys_for(now[0], seen))
    if signers:
        # Before anything else is judged: what the log has signed counts for the rest of the file, too.
        need(trust.shown.setdefault(now[:2], now) == now, "SPLIT VIEW: this file shows two logs of one size")
    need(signers, "no known key of the log signed the checkpoint")
    witnesses = check_note(note, trust.witnesses)
    need(witnesses is not None, "a signature of a known witness does not hold")
    if trust.policy is not None:
        need(trust.policy.is_met(witnesses), "the policy asks for more witnesses")
    need(len(witnesses) >= trust.least, f"{len(witnesses)} of {trust.least} known witnesses signed")
    check_growth(now, seen, given)
    print(f"checkpoint of {now[0]}: {now[1]} entries, signed by {', '.join(key[0] for key in signers + witnesses)}")
    return now


def check_logged(entry, text, given, trust):
    """Below which checkpoint the entry stands, and where."""
    head, gap, note = (string(text) or "").partition("\n\n")
    kind, place, *lines = head.split("\n") + [""] if gap else ["", ""]
    path, index = hashes_in(lines[:-1], 63), re.fullmatch("index (0|[1-9][0-9]{0,15})", place)
    if kind != "c2sp.org/tlog-proof@v1" or path is None or index is None:
        need(not trust.log_needed, "there is no proof that the log holds it")
        return None, None
    now = check_checkpoint(note, given, trust)
    need(root_by_inclusion(leaf_hash(entry.encode()), int(index[1]), now[1], path) == now[2], "the proof does not lead to the checkpoint")
    return now, int(index[1])


# Receipts.
VERSIONS = ("svc-receipt-v1", "svc-receipt-v2", "svc-receipt-v3")
INSTANT = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{3}Z"
MINUTE_MS, LATE_MINUTES = 60_000, 10


def receipt_hash(facts):
    return "0x" + keccak256(utf8(canonical(facts))).hex()


def receipt_message(facts, told):
    return facts["v"].encode() + b":" + bytes.fromhex(told[2:])


def known_facts(facts, told):
    timed = facts.get("v") != "svc-receipt-v3" or is_instant(facts.get("issued_at"))
    return facts.get("v") in VERSIONS and timed and receipt_hash(facts) == told and re.fullmatch("0x[0-9a-f]{64}", told)


def is_instant(value):
    return isinstance(value, str) and re.fullmatch(INSTANT, value) is not None


def unix_ms(text):
    instant = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (instant - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(milliseconds=1)


def show_times(facts, log):
    """When it was issued, and since when the log holds it: what the issuer and the gateway say. Neither makes it invalid."""
    issued, logged = facts.get("issued_at"), log.get("logged_at")
    print(f"issued at {issued}" if is_instant(issued) else "its version does not say when it was issued")
    if not is_instant(logged):
        return
    print(f"in the log since {logged}, as the gateway says")
    try:
        minutes = (unix_ms(logged) - unix_ms(issued)) / MINUTE_MS if is_instant(issued) else 0
    except ValueError:
        return
    if abs(minutes) > LATE_MINUTES:
        print(f"WARNING: {round(abs(minutes))} minutes {'LATER' if minutes > 0 else 'BEFORE it was issued'}")


def check_opened(facts, given):
    """What the client shows of its own accord."""
    if "opened" not in given:
        return
    opened = fields(given["opened"])
    salt = base64url(string(opened.get("salt")), 32)
    need(salt is not None, "there is no salt of 32 bytes")
    shown = {}
    if "request" in opened:
        shown["request_commitment"] = canonical(opened["request"])
    if "response" in opened:
        shown["response_commitment"] = canonical([
            {**{name: one[name] for name in ("finish_reason", "index") if name in one},
             "message": {name: value for name, value in fields(one.get("message")).items() if value not in (None, "")}}
            for one in map(fields, items(fields(opened["response"]).get("choices")))])
    if string(opened.get("upstream_model")) is not None:
        shown["upstream_model_commitment"] = opened["upstream_model"]
    if shown:
        utf8(canonical(opened))
    for name, text in shown.items():
        need("0x" + hashlib.sha256(salt + utf8(text)).hexdigest() == facts.get(name), "the receipt commits to another " + name)


def check_beside(given, trust):
    """The receipt that the node signed in place of the one that counts."""
    beside = fields(given.get("node_receipt"))
    facts, told = fields(beside.get("receipt")), string(beside.get("receipt_hash"))
    if told is not None:
        need(known_facts(facts, told), "the facts of the node's receipt have another hash")


def check_cutoff(cutoff, now, index):
    """A receipt of a node without its signature: only from before the log's entry that bounds all of them."""
    cutoff = fields(cutoff)
    size, unsigned, path = whole(cutoff.get("size")), whole(cutoff.get("unsigned")), hashes_in(cutoff.get("proof"), 63)
    need(now is not None and index < size and unsigned >= 1 and path is not None, "a receipt without a signature proves nothing")
    facts = {"v": "svc-log-cutoff-v1", "size": size, "root": string(cutoff.get("root")) or "", "unsigned": unsigned,
             "unsigned_hash": string(cutoff.get("unsigned_hash")) or ""}
    entry = ("svc-log-v1:cutoff:0x" + hashlib.sha256(utf8(canonical(facts))).hexdigest()).encode()
    need(root_by_inclusion(leaf_hash(entry), size, now[1], path) == now[2], "the cutoff is not in the log")
    print("no signature: it is from before nodes signed all")


def check_receipt(given, trust):
    facts, told, log = fields(given.get("receipt")), string(given.get("receipt_hash")) or "", fields(given.get("log"))
    now, index = check_logged("svc-log-v1:receipt:" + receipt_hash(facts), log.get("log_proof"), given, trust)
    need(known_facts(facts, told), "the facts have another hash, or are of a version that is not known here")
    by_node = facts.get("issuer") == "node"
    text = next((one for one in (given.get("signature_ed25519"), log.get("signature_ed25519")) if isinstance(one, str)), None)
    keys = trust.node_keys + ([] if by_node else [key[3] for key in trust.log_keys])
    if text is None:
        check_cutoff(log.get("cutoff") if by_node else None, now, index)
    else:
        signature = base64url(text, 64)
        need(any(signed(key, receipt_message(facts, told), signature) for key in keys), "no known key signed the receipt")
    check_beside(given, trust)
    check_opened(facts, given)
    show_times(facts, log)
    print(f"receipt {told}: " + ("signed" if index is None else f"entry {index} of the log"))
    return now


def promise_message(promise):
    """What the log's key has signed of an answer's `svc.receipt`: the promise, or the root of its batch."""
    ms = unix_ms(promise["promised_at"])
    text, batch = f"svc-promise-v1:{promise['log']}:{ms}:{promise['hash']}", promise.get("batch")
    if batch is None:
        return text.encode()
    path = [base64.b64decode(one, validate=True) for one in batch["proof"]]
    root = root_by_inclusion(leaf_hash(text.encode()), batch["index"], batch["size"], path)
    return f"svc-promises-v1:{promise['log']}:{ms}:{batch['size']}:0x{root.hex()}".encode()


# Payouts: OpenZeppelin's standard tree.
def from_hex(text, length):
    need(re.fullmatch(f"0x[0-9a-fA-F]{{{2 * length}}}", text or ""), f"not {length} bytes in hex")
    return bytes.fromhex(text[2:])


def payout_leaf(given):
    name, amount = string(given.get("payout_id")), string(given.get("amount_wei")) or ""
    identity = keccak256(utf8(string(given.get("entry_id")) or "")) if name is None else from_hex(name, 32)
    need(re.fullmatch("0|[1-9][0-9]{0,77}", amount) and int(amount) < 2 ** 256, "no amount")
    return keccak256(keccak256(identity + bytes(12) + from_hex(string(given.get("payee")), 20) + int(amount).to_bytes(32, "big")))


def check_payout(given, trust):
    root, leaf = string(given.get("merkle_root")) or "", payout_leaf(given)
    need(given.get("leaf") == "0x" + leaf.hex(), "the leaf is another")
    node = leaf
    for sibling in items(given.get("proof")):
        node = keccak256(b"".join(sorted([node, from_hex(string(sibling), 32)])))
    need("0x" + node.hex() == root.lower(), "the payout is not below the root")
    need(root.lower() in trust.roots, "compare the root with the contract: give its root with --root")
    print(f"payout of {given['amount_wei']} wei to {given['payee']} is below the root")


CHECKS = {
    "svc.receipt": ("receipt", check_receipt),
    "svc.checkpoint": ("checkpoint", lambda given, trust: check_checkpoint(string(given.get("note")) or "", given, trust)),
    "svc.payout_proof": ("payout", check_payout),
}


def parts_of(given):
    """The files of a file, each with the kind and the check of it."""
    if given.get("object") == "svc.bundle":
        files = [fields(one) for one in items(given.get("files"))]
        need(1 <= len(files) <= 1_000 and all(one.get("object") != "svc.bundle" for one in files), "no bundle")
        return [part for one in files for part in parts_of(one)]
    found = CHECKS.get(string(given.get("object")))
    if found is None and isinstance(given.get("proofs"), list):
        return [(*CHECKS["svc.payout_proof"], fields(one)) for one in given["proofs"]]
    need(found is not None, "no file that can be verified here")
    return [(*found, given)]


def check_text(text, kind, trust):
    """Raises NotValid for the first part of a file that does not hold. What holds is remembered all the same."""
    text = text.strip(BLANKS)
    given = {"object": "svc.checkpoint", "note": text + "\n"} if text.startswith("svc-log/") else fields(read_json(text))
    parts, faults, kept = parts_of(given), [], []
    need(parts and all(kind in ("file", name) for name, *_ in parts), "no " + kind)
    for _, check, one in parts:
        try:
            kept.append(check(one, trust))
        except NotValid as fault:
            faults.append(fault)
    for now in kept:
        if now is not None:
            trust.memory.keep(now, [key for key in trust.log_keys if key[0] == now[0]])
    trust.memory.write()
    if faults:
        raise faults[0]


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
    for one in (receipt, all_of_it["receipt_v2"], all_of_it["receipt_v3"], all_of_it["receipt_before_cutoff"]):
        check_receipt(one["file"], Trust(Memory(None), [receipt["log_key"]], [], [receipt["witness_key"]], 1))
    node = all_of_it["node_receipt"]
    digest = keccak256(node["text"].encode())
    assert "0x" + digest.hex() == node["hash"]
    assert signed(base64url(node["public_key"], 32), b"svc-receipt-v1:" + digest, base64url(node["signature_ed25519"], 64))
    for promise in all_of_it["promises"]:
        message, signature = promise_message(promise["receipt"]), promise["receipt"]["signature_ed25519"]
        assert message.decode() == promise["signed"]
        assert signed(note_key(receipt["log_key"])[3], message, base64url(signature, 64))
    payouts = all_of_it["payouts"]
    for payout in payouts["payouts"]:
        check_payout({**payout, "merkle_root": payouts["root"]}, Trust(Memory(None), roots=[payouts["root"]]))
    told = all_of_it["signed_texts"]
    for name in ("payout_report", "payout_proofs"):
        assert signed(base64url(told["public_key"], 32), told[name]["text"].encode(), base64url(told[name]["signature_ed25519"], 64))
    line, hook = all_of_it["audit_line"], all_of_it["webhook"]
    text = "audit-chain-v1\0" + line["kind"] + "\0" + canonical({**line["facts"], "previous": line["previous"]})
    assert hmac.new(line["key"].encode(), text.encode(), "sha256").hexdigest() == line["mac"]
    secret, text = base64.b64decode(hook["secret"][6:]), f"{hook['id']}.{hook['timestamp']}.{hook['body']}"
    assert "v1," + base64.b64encode(hmac.digest(secret, text.encode(), "sha256")).decode() == hook["signature"]
    for kind, facts in all_of_it["ledger_facts"].items():
        assert "0x" + hashlib.sha256(canonical(facts).encode()).hexdigest() == all_of_it["entries"][kind]


def edited(text, edits):
    """A file of the table of mutations: each edit replaces, in the text or at a path, what it names."""
    for edit in edits:
        if "replace" in edit:
            assert edit["replace"] in text
            text = text.replace(edit["replace"], edit["by"], 1)
        else:
            value = json.loads(text)
            *path, last = edit["at"]
            inner = value
            for step in path:
                inner = inner[step]
            if "set" in edit:
                inner[last] = edit["set"]
            elif isinstance(inner, dict):
                inner.pop(last, None)
            else:
                del inner[last]
            text = json.dumps(value)
    return text


def verdict_of(case, bases, knowns):
    """Whether a row of the table is valid."""
    memory, known = Memory(None), knowns[case["known"]]
    memory.keys, memory.checkpoints = list(known.get("keys", [])), dict(known.get("checkpoints", {}))
    policy = Policy(known["policy"].encode()) if "policy" in known else None
    given = [known.get(name, []) for name in ("log_keys", "node_keys", "witnesses")]
    trust = Trust(memory, *given, known.get("least", 0), policy, known.get("roots", []))
    try:
        check_text(edited(bases[case["base"]], case["edits"]), "file", trust)
        return True
    except NotValid:
        return False


def check_mutations(table):
    wrong = [case["name"] for case in table["cases"] if verdict_of(case, table["bases"], table["known"]) != case["valid"]]
    need(not wrong, f"{len(wrong)} of {len(table['cases'])} have another verdict: {wrong}")
    print(f"{len(table['cases'])} cases have their verdicts")


def check_edges(table):
    raw = bytes.fromhex
    wrong = [case["name"] for case in table["cases"]
             if signed(raw(case["public_key"]), raw(case["message"]), raw(case["signature"])) != case["valid"]]
    need(not wrong, f"another verdict: {wrong}")
    print(f"{len(table['cases'])} cases have their verdicts")


TABLES = {"vectors": check_vectors, "mutations": check_mutations, "ed25519": check_edges}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["receipt", "checkpoint", "payout", "file", *TABLES])
    parser.add_argument("file")
    for name in ("--log-key", "--witness", "--key", "--root"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--witnesses", type=int, default=0)
    parser.add_argument("--policy")
    parser.add_argument("--without-log", action="store_true")
    parser.add_argument("--memory", default="~/.config/penstock/public-logs.json")
    given = parser.parse_args()
    text = pathlib.Path(given.file).read_bytes().decode("utf-8-sig", "replace")
    try:
        if given.kind in TABLES:
            TABLES[given.kind](json.loads(text))
        else:
            policy = Policy(pathlib.Path(given.policy).read_bytes()) if given.policy else None
            memory = Memory(pathlib.Path(given.memory).expanduser())
            check_text(text, given.kind, Trust(memory, given.log_key, given.key, given.witness, given.witnesses, policy,
                                               given.root, not given.without_log))
    except WrongUse as fault:
        parser.error(str(fault))
    except (ValueError, AssertionError) as fault:
        print(f"NOT VALID: {fault!r}", file=sys.stderr)
        return 1
    print("valid")
    return 0


if __name__ == "__main__":
    sys.exit(main())
